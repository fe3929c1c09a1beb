package compactor

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// scripts are a sentence each.
var scripts = map[string]string{
	"Latin":      "The user wants the login page to remember its visitors for thirty days and to show a short message when a session has ended. ",
	"Cyrillic":   "Пользователь хочет, чтобы страница входа помнила посетителей тридцать дней и показывала короткое сообщение, когда сессия закончилась. ",
	"Arabic":     "يريد المستخدم أن تتذكر صفحة الدخول الزوار لمدة ثلاثين يوما وأن تعرض رسالة قصيرة عند انتهاء الجلسة. ",
	"Devanagari": "उपयोगकर्ता चाहता है कि लॉगिन पृष्ठ तीस दिनों तक आगंतुकों को याद रखे और सत्र समाप्त होने पर संदेश दिखाए। ",
	"Greek":      "Ο χρήστης θέλει η σελίδα σύνδεσης να θυμάται τους επισκέπτες για τριάντα ημέρες και να δείχνει ένα μήνυμα. ",
	"Hebrew":     "המשתמש רוצה שדף הכניסה יזכור את המבקרים במשך שלושים יום ויציג הודעה קצרה כשההפעלה מסתיימת. ",
	"Thai":       "ผู้ใช้ต้องการให้หน้าเข้าสู่ระบบจดจำผู้เยี่ยมชมเป็นเวลาสามสิบวันและแสดงข้อความสั้นๆ เมื่อเซสชันสิ้นสุด ",
	"Hangul":     "사용자는 로그인 페이지가 방문자를 삼십 일 동안 기억하고 세션이 끝나면 짧은 메시지를 보여 주기를 원합니다. ",
	"Han":        "用户希望登录页面能记住访问者三十天，并在会话结束时显示一条简短的消息。我们检查了现有的中间件，并作了修改。",
	"Kana":       "ユーザーはログインページが三十日間訪問者を記憶し、セッションが終了したときに短いメッセージを表示することを望んでいます。",
}

// scriptPlan returns a due session of one sentence, repeated.
func scriptPlan(t *testing.T, name, sentence string) *plan.Plan {
	t.Helper()
	pol, _ := policy.Builtin(name)
	w := newWorld()
	w.Limits.ContextWindow = 32_000
	each := int(600 / tokens.Approx{}.Text(sentence))
	for i := range 200 {
		p := w.Path()
		if n := p.Tokens(); n > plan.SizesOf(p, pol, turns.Trigger{}, 0).Trigger {
			break
		}
		must(t, w.Turn(user(fmt.Sprintf("%d %s", i, strings.Repeat(sentence, each))), says(fmt.Sprintf("%d %s", i, strings.Repeat(sentence, each)))))
	}
	pl, err := plan.New(w.Path(), pol, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{Cover: true})
	must(t, err)
	return pl
}

// upTo returns a text of at most n of a model's tokens.
func upTo(sentence string, n uint64) string {
	return strings.TrimSpace(strings.Repeat(sentence, int(n/(summary.ModelTokens(sentence)+1))))
}

// A model gets a bound in its own tokens, and a text within the bound is a
// summary in every script. So is a text that is only within the bound in tokens, if
// approx-1 takes its script for more and there is room for it.
func TestSummaryLengthByScript(t *testing.T) {
	asked := regexp.MustCompile(`Use at most (\d+) tokens \(about (\d+) characters\)`)
	for _, name := range []string{"balanced", "nexus", "gsv", "spec-008", "autobyteus", "wolffish"} {
		for script, sentence := range scripts {
			pl := scriptPlan(t, name, sentence)
			in := pl.Input()
			m := asked.FindStringSubmatch(summary.Prompt(in))
			if m == nil {
				t.Fatalf("%s: no bound in %s", name, summary.Prompt(in))
			}
			reported, _ := strconv.ParseUint(m[1], 10, 64)
			characters, _ := strconv.Atoi(m[2])
			compose := func(text string) error {
				_, err := Compose(pl, summary.Output{Text: text, Tier: "llm"}, pl.Path.CountedBy())
				return err
			}
			text := upTo(sentence, reported)
			if err := compose(text); err != nil {
				t.Errorf("%s, %s: %d tokens of a model, as asked: %v", name, script, reported, err)
			}
			if n := utf8.RuneCountInString(text); n < characters/2 || n > characters*2 {
				t.Errorf("%s, %s: %d tokens are %d characters, told were about %d", name, script, reported, n, characters)
			}
			if n := (tokens.Approx{}).Text(strings.Repeat(sentence, characters/utf8.RuneCountInString(sentence))); n > in.MaxTokens+in.MaxTokens/5 {
				t.Errorf("%s, %s: %d characters are %d tokens, the plan allows %d", name, script, characters, n, in.MaxTokens)
			}
			if err := compose(upTo(sentence, in.MaxTokens/2)); err != nil {
				t.Errorf("%s, %s: half of what the plan allows in a model's tokens: %v", name, script, err)
			}
			twice := upTo(sentence, in.MaxTokens*2)
			if err := compose(twice); !errors.Is(err, summary.ErrRefused) && pl.Path.CountedBy().Text(twice) > pl.SummaryTokens {
				t.Errorf("%s, %s: twice what was asked for: %v", name, script, err)
			}
		}
	}
}
