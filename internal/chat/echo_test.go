package chat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// TestCallsAreReadAndEchoedAsAnyOther holds the short ways through ReadReply and Echo against the long ones.
func TestCallsAreReadAndEchoedAsAnyOther(t *testing.T) {
	short := 0
	rapid.Check(t, func(t *rapid.T) {
		usual, pick := picker(t)
		blank := pick("blank", "", " ", "\n\t")
		object := func(members ...string) string {
			if !usual {
				members = rapid.Permutation(members).Draw(t, "members")
			}
			return "{" + blank + strings.Join(members, blank+","+blank) + blank + "}"
		}
		call := func() string {
			function := object(`"name":`+pick("name", `"f"`, `"f"`, `""`, `"\u0066 g"`, `1`), pick("arguments",
				`"arguments":"{\"a\":1}"`, `"arguments":"{}"`, `"arguments":{"a":1}`, `"arguments":null`, `"x":1`))
			return pick("call", object(`"id":`+pick("id", `"c1"`, `"c1"`, `""`, `7`, `null`), `"type":`+pick("type", `"function"`, `"function"`, `null`), pick("how",
				`"function":`+function, `"function":`+function, `"\u0066unction":`+function, `"name":"f","arguments":"{}"`, `"function":null,"custom":{"name":"g","input":"i"}`)), `null`, `"x"`)
		}
		var calls []string
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			calls = append(calls, call())
		}
		list := "[" + blank + strings.Join(calls, blank+","+blank) + blank + "]"
		if len(calls) == 1 && !usual {
			list = pick("list", list, calls[0])
		}
		message := object(`"role":`+pick("role", `"assistant"`, `null`, `"\u0061ssistant"`), `"content":null`, `"tool_calls":`+list,
			pick("old", `"x":1`, `"function_call":{"name":"f","arguments":"{}"}`, `"tool_calls":[]`))
		turn, err := ReadReply([]byte(`{"choices":[{"message":` + message + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var want []Call
		eachCall(gjson.Get(message, "tool_calls"), func(c gjson.Result) { want = append(want, readCall(c)) })
		if old := gjson.Get(message, "function_call"); len(want) == 0 && old.Exists() {
			want = append(want, readCall(asToolCall(old)))
		}
		if diff := cmp.Diff(want, turn.Calls, cmpopts.IgnoreUnexported(Call{})); diff != "" {
			t.Fatalf("calls of %s:\n%s", message, diff)
		}
		mends := make([]Mend, len(turn.Calls))
		for i, c := range turn.Calls {
			mends[i] = Mend{ID: c.ID, Name: c.Name, Arguments: gjson.ParseBytes(c.Arguments).String()}
			switch rapid.IntRange(0, 9).Draw(t, "mended") {
			case 0:
				mends[i].ID = "other"
			case 1:
				mends[i].Name = "other"
			case 2:
				mends[i].Arguments = `{"b":2}`
			}
		}
		got, err := turn.Echo(mends)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) == message && turn.tidy && len(mends) > 0 {
			short++
		}
		long := *turn
		long.tidy, long.Calls = false, want
		echo, err := long.Echo(mends)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(echo), string(got)); diff != "" {
			t.Errorf("echo of %s with %+v:\n%s", message, mends, diff)
		}
	})
	if short == 0 {
		t.Error("no turn took the short way")
	}
}
