package chat

import (
	"errors"
	"testing"
)

func TestParseRequestReads(t *testing.T) {
	r, err := ParseRequest([]byte(`{"model":"m\u0021","stream":true,"n":2,"stream_options":{"include_usage":true,"x":1},
		"tool_choice":{"type":"function"},"tools":[{"type":"function","function":{"name":"a"}},{"type":"custom","custom":{"name":"b"}},{"type":"new"}],
		"messages":[{"role":"assistant","tool_calls":[{"id":"c1"},{"id":"c2"}]}],"unknown":[1.50]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != "m!" || !r.Stream || r.N != 2 || !r.IncludeUsage || r.ToolChoice != "named" || r.Legacy {
		t.Errorf("ParseRequest() = %+v", r)
	}
	if !r.Declares("a") || !r.Declares("b") || r.Declares("c") || r.ClientTools() != 2 {
		t.Errorf("declared tools are wrong: %v", r.names)
	}
	if ids := CallIDs(r.Member("messages")); len(ids) != 2 || !ids["c2"] {
		t.Errorf("CallIDs() = %v, want c1 and c2", ids)
	}
	if got := string(r.Member("unknown")); got != "[1.50]" {
		t.Errorf("Member(unknown) = %s", got)
	}
}

func TestParseRequestReadsAnyAsRequired(t *testing.T) {
	r, err := ParseRequest([]byte(`{"model":"m","messages":[{}],"tool_choice":"any"}`))
	if err != nil || r.ToolChoice != "required" {
		t.Errorf("ParseRequest() = %+v, error %v", r, err)
	}
}

func TestParseRequestTakesNullForAbsent(t *testing.T) {
	r, err := ParseRequest([]byte(`{"model":"m","messages":[1],"stream":null,"n":null,"tools":null,"tool_choice":null,"stream_options":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Stream || r.N != 1 || r.ToolChoice != "" || r.ClientTools() != 0 {
		t.Errorf("ParseRequest() = %+v, want the defaults", r)
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for _, tt := range []struct{ name, body, param, want string }{
		{"no JSON", `{"model":`, "", "the body is not valid JSON: unexpected end, want a value at byte 9"},
		{"no model", `{"messages":[1]}`, "model", "the body has no model: want the name of one, a string"},
		{"an empty model", `{"model":"","messages":[1]}`, "model", "the body has no model: want the name of one, a string"},
		{"a model that is a number", `{"model":5,"messages":[1]}`, "model", "model: want a string"},
		{"no messages", `{"model":"m"}`, "messages", "the body has no messages: want a list with at least one"},
		{"no message in the list", `{"model":"m","messages":[ ]}`, "messages", "messages: want a list with at least one message"},
		{"messages that are an object", `{"model":"m","messages":{"a":1}}`, "messages", "messages: want a list with at least one message"},
		{"stream that is a text", `{"model":"m","messages":[1],"stream":"yes"}`, "stream", "stream: want true or false"},
		{"n of zero", `{"model":"m","messages":[1],"n":0}`, "n", "n: want a whole number from 1 to 128"},
		{"tools that are an object", `{"model":"m","messages":[1],"tools":{}}`, "tools", "tools: want a list"},
		{"a key twice, of which a provider may read the other", `{"model":"m","messages":[1],"tools":[],"\u0074ools":[]}`, "tools", `the key "tools" stands twice in the body`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseRequest([]byte(tt.body))
			var invalid *Invalid
			if !errors.As(err, &invalid) || invalid.Param != tt.param || invalid.Text != tt.want {
				t.Errorf("ParseRequest() error = %v, want %s of %q", err, tt.want, tt.param)
			}
		})
	}
}

func TestParseObjectNeedsNoModel(t *testing.T) {
	r, err := ParseObject([]byte(`{"input":"x","messages":5}`))
	if err != nil || r.Model != "" {
		t.Errorf("ParseObject() = %+v, %v", r, err)
	}
	if _, err := ParseObject([]byte(`{"model":"a","model":"b"}`)); err == nil {
		t.Error("ParseObject() takes two models")
	}
}
