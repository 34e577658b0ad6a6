package chat

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// picker draws parts of a text: of one that is to be as most are, always the first that it may pick from.
func picker(t *rapid.T) (usual bool, pick func(label string, of ...string) string) {
	usual = rapid.Bool().Draw(t, "usual")
	return usual, func(label string, of ...string) string {
		if usual {
			return of[0]
		}
		return rapid.SampledFrom(of).Draw(t, label)
	}
}

// TestAReplyAsItCameIsEditedAsAnyOther holds the short ways through ReplyFor against the long one, and what ReadReply reads
// against encoding/json.
func TestAReplyAsItCameIsEditedAsAnyOther(t *testing.T) {
	short := 0
	rapid.Check(t, func(t *rapid.T) {
		usual, pick := picker(t)
		members := []string{
			`"id":` + pick("id", `"x"`, `"x"`, `""`, `null`), `"object":` + pick("object", `"chat.completion"`, `"chat.completion"`, `"x"`),
			`"created":` + pick("created", `1700000000`, `1700000000`, `null`, `"1"`), `"model":` + pick("model", `"m"`, `"m"`, `""`, `"\u006d"`),
			`"choices":[{"index":` + pick("index", `0`, `0`, `1`, `"0"`) + `,"message":{"role":` + pick("role", `"assistant"`, `"assistant"`, `null`) +
				`,"content":` + pick("content", `"Hi."`, `"a \"b\" \u00e9 é"`, `null`, `""`, `[{"type":"text","text":"Hi."}]`, `"\n"`) + pick("more", ``, ``, `,"tool_calls":[]`, `,"refusal":"no"`) +
				`},"finish_reason":` + pick("finish", `"stop"`, `"stop"`, `"length"`, `"eos"`, `null`) + `}` + pick("choices", ``, ``, `,{"index":1}`, ` `) + `]`,
			`"usage":` + pick("usage", `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`, `{}`, `null`, `{ }`, `1`),
			`"x":{"usage":1}`,
		}
		blank := pick("blank", "", " ", "\n\t")
		members = rapid.Permutation(members).Draw(t, "members")
		if !usual {
			members = members[rapid.IntRange(0, 1).Draw(t, "left out"):]
		}
		body := blank + "{" + blank + strings.Join(members, blank+","+blank) + "}" + blank
		turn, err := ReadReply([]byte(body))
		if err != nil {
			return // without choices
		}
		if turn.plain {
			short++
		}
		var read struct {
			ID, Model any
			Choices   []struct {
				Message struct{ Content any }
			}
		}
		if err := json.Unmarshal([]byte(body), &read); err != nil {
			t.Fatal(err)
		}
		for name, pair := range map[string][2]any{"id": {turn.ID, read.ID}, "model": {turn.Model, read.Model}, "text": {turn.Text, read.Choices[0].Message.Content}} {
			if text, ok := pair[1].(string); ok && pair[0] != text {
				t.Errorf("%s of %s is %q, want %q", name, body, pair[0], text)
			}
		}
		edits := ReplyEdits{Finish: pick("its finish", "stop", "stop", "length"), Fallback: Envelope{ID: "y", Created: strconv.Itoa(1), Model: "n"}}
		switch rapid.IntRange(0, 4).Draw(t, "edit") {
		case 0:
			edits.Usage = json.RawMessage(`{"total_tokens":9}`)
		case 1:
			text := "Other."
			edits.Content = &text
		case 2:
			edits.Gateway = json.RawMessage(`{"run":1}`)
		}
		got, err := turn.ReplyFor(edits)
		if err != nil {
			t.Fatal(err)
		}
		long := *turn
		long.plain = false
		want, err := long.ReplyFor(edits)
		if err != nil {
			t.Fatal(err)
		}
		var gotValue, wantValue any
		if err := json.Unmarshal(got, &gotValue); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if err := json.Unmarshal(want, &wantValue); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantValue, gotValue); diff != "" {
			t.Errorf("%s with %+v:\n%s", body, edits, diff)
		}
	})
	if short == 0 {
		t.Error("no reply took the short way")
	}
}
