package highlight

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// languages has each language by the names that a fence gives it. Few programs need them.
var languages = sync.OnceValue(func() map[string]*syntax { return byName(rows()) })

// rows has a row for each language.
func rows() map[string]*syntax {
	script := like(c, words("async await break case catch class const continue debugger default delete do else export extends finally for from function get if import in instanceof let new of return set static super switch this throw try typeof var void while with yield"),
		types("true false null undefined NaN Infinity console document window Promise Array Object Map Set JSON Math Date Error"), quoted(quote{"`", "`", false, true}), extra("$"))
	return map[string]*syntax{
		"go golang": like(c, words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var"),
			types("any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr true false iota nil append cap clear close copy delete len make max min new panic print println recover"),
			quoted(backtick)),
		"c h": like(c, words("auto break case const continue default do else enum extern for goto if inline register restrict return sizeof static struct switch typedef union volatile while"),
			types("bool char double float int long short signed size_t ssize_t unsigned void NULL true false int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t")),
		"cpp c++ cc cxx hpp": like(c, words("alignas auto break case catch class concept const constexpr continue default delete do else enum explicit export extern final for friend goto if inline mutable namespace new noexcept operator override private protected public requires return sizeof static struct switch template this throw try typedef typename union using virtual volatile while co_await co_return co_yield"),
			types("bool char double float int long short signed size_t unsigned void nullptr true false string vector map set pair unique_ptr shared_ptr optional std")),
		"java": like(c, words("abstract assert break case catch class const continue default do else enum extends final finally for goto if implements import instanceof interface native new package private protected public record return sealed static strictfp super switch synchronized this throw throws transient try var void volatile while yield"),
			types("boolean byte char double float int long short true false null String Object Integer Long List Map Set Optional"), quoted(triple)),
		"kotlin kt kts": like(c, words("abstract as break by catch class companion const constructor continue data do else enum extends final finally for fun get if import in inline interface internal is lateinit object open operator out override package private protected public return sealed set super suspend this throw try typealias val var when where while"),
			types("Any Boolean Byte Char Double Float Int Long Short String Unit List Map Set true false null"), quoted(triple)),
		"swift": like(c, words("actor as async await break case catch class continue default defer deinit do else enum extension fallthrough fileprivate for func guard if import in init inout internal is let mutating open operator private protocol public repeat rethrows return self some static struct subscript super switch throw throws try typealias var where while"),
			types("Any Array Bool Character Data Dictionary Double Float Int Optional Result Set String URL Void true false nil"), quoted(triple)),
		"csharp cs c#": like(c, words("abstract as async await base break case catch checked class const continue default delegate do else enum event explicit extern finally fixed for foreach get goto if implicit in init interface internal is lock namespace new operator out override params private protected public readonly record ref return sealed set sizeof static struct switch this throw try typeof unchecked unsafe using var virtual volatile when where while yield"),
			types("bool byte char decimal double float int long object sbyte short string uint ulong ushort void true false null Task List Dictionary")),
		"rust rs": like(c, words("as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait type unsafe use where while macro_rules"),
			types("bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize String Vec Option Result Some None Ok Err Box Rc Arc true false"), only(double)),
		"javascript js jsx mjs cjs": script,
		"typescript ts tsx mts cts": like(script, words("abstract as declare enum implements interface is keyof namespace override private protected public readonly satisfies type"), types("any bigint boolean never number object string symbol unknown void Partial Record Readonly")),
		"php": like(c, words("abstract and array as break case catch class clone const continue declare default do echo else elseif empty enum extends final finally fn for foreach function global if implements include include_once instanceof interface isset list match namespace new or print private protected public readonly require require_once return static switch throw trait try unset use var while yield"),
			types("bool float int iterable mixed null object parent self string true false void"), comments("//", "#"), extra("$")),
		"scala": like(c, words("abstract case catch class def do else enum extends final finally for given if implicit import lazy match new object override package private protected return sealed super then this throw trait try type using val var while with yield"),
			types("Any Boolean Byte Char Double Float Int Long Option Seq Some None String Unit List Map Set true false null"), quoted(triple)),
		"dart": like(c, words("abstract as assert async await break case catch class const continue default do dynamic else enum export extends extension factory final finally for get if implements import in interface is late library mixin new on operator part required rethrow return set static super switch sync this throw try typedef var while with yield"),
			types("bool double int num void String List Map Set Future Stream true false null"), quoted(triple)),
		"zig": like(c, words("align and asm async await break catch comptime const continue defer else enum errdefer error export extern fn for if inline noalias or orelse packed pub resume return struct suspend switch test threadlocal try union unreachable usingnamespace var volatile while"),
			types("anyerror anytype bool f32 f64 i8 i16 i32 i64 isize null true false u8 u16 u32 u64 undefined usize void"), extra("@")),
		"protobuf proto": like(c, words("enum extend extensions import map message oneof option optional package public repeated required reserved returns rpc service stream syntax to"),
			types("bool bytes double fixed32 fixed64 float int32 int64 sfixed32 sfixed64 sint32 sint64 string uint32 uint64 true false")),
		"css scss less": like(c, words("important media import keyframes supports layer font-face include mixin use extend"), extra("-@#%"), keys(":")),
		"python py python3": like(hash, words("and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield"),
			types("bool bytes dict float int list object set str tuple type None True False self cls super len print range enumerate zip open isinstance Exception ValueError TypeError KeyError"), quoted(quote{`"""`, `"""`, false, true}, quote{"'''", "'''", false, true}), extra("@")),
		"ruby rb":       like(hash, words("alias and begin break case class def defined do else elsif end ensure extend false for if in include module next nil not or private protected public raise redo require require_relative rescue retry return self super then true undef unless until when while yield attr_accessor attr_reader attr_writer"), extra("@$?!")),
		"elixir ex exs": like(hash, words("after alias and case catch cond def defmodule defmacro defp defstruct do else end fn for if import in not or quote raise receive rescue require true false nil try unless unquote use when with"), quoted(triple), extra("@?!")),
		"perl pl":       like(hash, words("and bless cmp die else elsif eq for foreach ge gt if last le lt local lt my ne next no not or our package print redo ref require return sub undef unless until use while"), extra("$@%"), loosely),
		"r":             like(hash, words("break else for function if in next repeat return while library"), types("TRUE FALSE NULL NA NaN Inf"), extra(".")),
		"julia jl":      like(hash, words("abstract baremodule begin break catch const continue do else elseif end export finally for function global if import in let local macro module mutable primitive quote return struct try type using where while"), types("true false nothing missing Int Float64 String Bool Vector Dict"), quoted(triple), extra("@!")),
		"bash sh shell zsh fish": like(hash, words("break case continue do done elif else esac exit export fi for function if in local read readonly return set shift source then trap unset until while"),
			types("alias awk cat cd chmod cp curl cut docker echo env false find git go grep head jq kill ls make mkdir mv npm printf pwd python python3 rm sed sort ssh sudo tail tar tee test touch tr true uniq wc xargs"), extra("$-"), loosely, only(quote{`"`, `"`, false, true}, quote{"'", "'", true, true})),
		"powershell ps1":                  like(hash, words("begin break catch class continue do else elseif end exit filter finally for foreach function if in param process return switch throw trap try until using while"), extra("$-"), anyCase),
		"dockerfile docker containerfile": like(hash, words("from run cmd label expose env add copy entrypoint volume user workdir arg onbuild stopsignal healthcheck shell as"), anyCase, loosely, extra("-$")),
		"makefile make mk":                like(hash, words("define else endef endif export ifdef ifeq ifndef ifneq include override unexport"), keys(":="), extra("$-.%"), loosely, only(double)),
		"yaml yml":                        like(hash, types("true false null yes no on off"), keys(":"), extra("-."), loosely),
		"toml":                            like(hash, types("true false"), keys("="), extra("-"), quoted(triple, quote{"'''", "'''", true, true})),
		"ini conf cfg properties env":     like(hash, types("true false yes no on off"), keys("="), extra("-."), comments("#", ";"), loosely),
		"nginx":                           like(hash, words("http server location upstream events if return rewrite set include listen server_name root index proxy_pass"), extra("$-"), loosely),
		"hcl terraform tf":                like(hash, words("data dynamic for for_each if in locals module output provider resource terraform variable"), types("true false null string number bool list map object any"), keys("="), comments("#", "//"), extra("-")),
		"graphql gql":                     like(hash, words("directive enum extend fragment implements input interface mutation on query scalar schema subscription type union"), types("Boolean Float ID Int String true false null"), quoted(triple)),
		"json jsonc json5 jsonl":          like(c, types("true false null"), keys(":"), only(double)),
		"sql postgresql postgres mysql sqlite plsql": {comment: []string{"--"}, block: [2]string{"/*", "*/"}, anyCase: true, quotes: []quote{{"'", "'", true, true}, {`"`, `"`, true, false}},
			words: set("add all alter and as asc begin between by cascade case check column commit conflict constraint create cross default delete desc distinct do drop else end except exists explain foreign from full group having if in index inner insert intersect into is join key left like limit not null offset on or order outer over partition primary references returning right rollback select set table then transaction trigger union unique update using values view when where with"),
			types: set("bigint blob boolean bytea char date decimal double float integer int json jsonb numeric real serial smallint text time timestamp timestamptz uuid varchar true false count sum avg min max coalesce now")},
		"lua": {comment: []string{"--"}, block: [2]string{"--[[", "]]"}, quotes: []quote{double, single},
			words: set("and break do else elseif end for function goto if in local not or repeat return then until while"), types: set("true false nil self")},
		"haskell hs": {comment: []string{"--"}, block: [2]string{"{-", "-}"}, quotes: []quote{double}, extra: "'",
			words: set("case class data default deriving do else forall foreign if import in infix infixl infixr instance let module newtype of qualified then type where"), types: set("Bool Char Double Either Float IO Int Integer Just Left Maybe Nothing Right String True False")},
		"clojure clj lisp scheme elisp": {comment: []string{";"}, quotes: []quote{{`"`, `"`, false, true}}, extra: "-?!*+<>=",
			words: set("begin cond def define defmacro defn defun do fn for if lambda let let* letrec loop ns or and recur require set! when"), types: set("true false nil")},
		"html xml svg xhtml vue svelte": {block: [2]string{"<!--", "-->"}, quotes: []quote{{`"`, `"`, true, true}, {"'", "'", true, true}}, extra: "-:.@", tags: true},
		"diff patch": {lines: func(line string) string {
			switch {
			case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "index "):
				return "f"
			case strings.HasPrefix(line, "@@"):
				return "k"
			case strings.HasPrefix(line, "+"):
				return "i"
			case strings.HasPrefix(line, "-"):
				return "d"
			}
			return ""
		}},
	}
}

var (
	double   = quote{open: `"`, close: `"`}
	single   = quote{open: "'", close: "'"}
	backtick = quote{"`", "`", true, true}
	triple   = quote{`"""`, `"""`, true, true}

	// c and hash are what most languages began with.
	c    = &syntax{comment: []string{"//"}, block: [2]string{"/*", "*/"}, quotes: []quote{double, single}}
	hash = &syntax{comment: []string{"#"}, quotes: []quote{double, single}}
)

// like returns a syntax that begins as another one.
func like(s *syntax, changes ...func(*syntax)) *syntax {
	out := *s
	for _, f := range changes {
		f(&out)
	}
	return &out
}

func words(list string) func(*syntax) {
	return func(s *syntax) { s.words = union(s.words, list) }
}

func types(list string) func(*syntax) {
	return func(s *syntax) { s.types = union(s.types, list) }
}

func union(a map[string]bool, list string) map[string]bool {
	out := set(list)
	maps.Copy(out, a)
	return out
}

// quoted adds strings before those that are there, only puts them in their place.
func quoted(q ...quote) func(*syntax) {
	return func(s *syntax) { s.quotes = slices.Concat(q, s.quotes) }
}
func only(q ...quote) func(*syntax)          { return func(s *syntax) { s.quotes = q } }
func comments(begin ...string) func(*syntax) { return func(s *syntax) { s.comment = begin } }
func extra(bytes string) func(*syntax)       { return func(s *syntax) { s.extra = bytes } }
func keys(bytes string) func(*syntax)        { return func(s *syntax) { s.keys = bytes } }
func anyCase(s *syntax)                      { s.anyCase = true }
func loosely(s *syntax)                      { s.loose = true }

func set(list string) map[string]bool {
	out := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		out[w] = true
	}
	return out
}

// byName gives each language a row for each of its names.
func byName(all map[string]*syntax) map[string]*syntax {
	out := make(map[string]*syntax)
	for names, s := range all {
		for _, name := range strings.Fields(names) {
			out[name] = s
		}
	}
	return out
}
