package main

// manualContext is the page of context.
const manualContext = `ledgerctl context SESSION|TURN [--before] [--next] [--format F]
                                [--policy P] [--budget N] [--query TEXT]
                                [--explain] [--svg]
ledgerctl context --diff A B

Of a session, what the model would see next: the messages, where each comes
from, and how full the window is. Looking writes nothing; with --agent it is the
agent's own call and may commit a compaction that is due.

Of a turn, what the model was given for it, and its response: the context as it
was served, where the turn has its recipe; else, as far as the source tells, the
turns on its path with the compactions that its agent made. Above it are the
provider's count beside ours, and what the source lacks.

  --before      of a turn, without its own response
  --next        of a turn, what the call after it was given, or would be
  --diff        compare two contexts, of turns or sessions: which messages are
                gone, added or changed, and the tokens
  --format F    the messages as JSON: otel, openai, anthropic, gemini
  --policy P    simulate: what another policy or settings would show, as
                sessions set takes them
  --budget N    simulate another budget, in tokens
  --query TEXT  with the pieces of older turns that answer it and that the
                context does not show whole, marked as such
  --query-tokens N
                at most so many tokens of them (default: an eighth of the
                budget, 8,000 at most)
  --explain     every half turn, and why it is in, shortened or out
  --svg         print a picture, as SVG: how the budget is used, and by what
  --show-secrets  show credentials of known shapes; else the text has asterisks

Examples
  ledgerctl context support-42 --explain
  ledgerctl context support-42@30 --before
  ledgerctl context --diff support-42@30 support-42@40
  ledgerctl context support-42@30 --policy balanced
  ledgerctl context support-42 --query "the failing migration" --explain
  ledgerctl context support-42 --svg > context.svg
  ledgerctl context 01J8@head~3 --format anthropic | jq .messages
`
