package prompted

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/chat"
)

const blanks = " \t\r\n"

// form is a way in which a family of models writes calls behind a mark. read reads what follows open, and gives what
// follows the calls. closing ends what can't be read.
type form struct {
	open, closing string
	read          func(text string) (calls []call, rest string, err error)
}

// The tags of Hermes and Qwen, which are also those that System asks for.
const (
	tagOpen, tagClose           = "<tool_call>", "</tool_call>"
	responseOpen, responseClose = "<tool_response>", "</tool_response>"
)

// forms are the ways that chat templates of common model families have. testdata/families has an example of each.
var forms = []form{
	{tagOpen, tagClose, tagged},                                                               // Hermes, Qwen; with names and arguments in tags Qwen-Coder, GLM
	{"<tool_calls>", "</tool_calls>", within("</tool_calls>")},                                // Jamba, Hunyuan, MiniMax-M1
	{"<|tool_call|>", "<|/tool_call|>", within("<|/tool_call|>")},                             // Granite, Phi-4-mini
	{"functools[", "]", functools},                                                            // FireFunction, Phi-4
	{"[TOOL_CALLS]", "</s>", mistral},                                                         // Mistral: a list; since its v11 tokenizer NAME[ARGS]{...} behind each mark
	{"<|python_tag|>", "<|eom_id|>", llama},                                                   // Llama 3.1: calls parted by semicolons, with parameters
	{"<function=", "</function>", functionTag},                                                // Llama 3.1's own form for custom tools, Qwen-Coder without tool_call
	{"<function_calls>", "</function_calls>", invokes("</function_calls>")},                   // DeepSeek 3.2 and others in the manner of Anthropic's models
	{"<minimax:tool_call>", "</minimax:tool_call>", invokes("</minimax:tool_call>")},          // MiniMax-M2
	{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", deepSeek},                                  // DeepSeek V3, R1, V3.1
	{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", kimi},                      // Kimi K2
	{"<|channel|>commentary to=", "<|call|>", harmony},                                        // gpt-oss
	{"<|start|>assistant<|channel|>commentary to=", "<|call|>", harmony},                      // likewise, with its turn's head
	{"<|action_start|><|plugin|>", "<|action_end|>", within("<|action_end|>")},                // InternLM
	{"<longcat_tool_call>", "</longcat_tool_call>", within("</longcat_tool_call>")},           // LongCat
	{"<seed:tool_call>", "</seed:tool_call>", seed},                                           // Seed-OSS
	{"<TOOLCALL>", "</TOOLCALL>", within("</TOOLCALL>")},                                      // Nemotron
	{"<|START_ACTION|>", "<|END_ACTION|>", within("<|END_ACTION|>")},                          // Command R7B, A
	{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>", invokes("</｜DSML｜function_calls>")}, // DeepSeek V3.2
}

// formAt is the form that text begins with, nil where it begins with none.
func formAt(text string) *form {
	for i := range forms {
		if strings.HasPrefix(text, forms[i].open) {
			return &forms[i]
		}
	}
	return nil
}

// endTokens are special tokens that end a turn, which servers should have taken away.
var endTokens = []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|call|>", "<｜end▁of▁sentence｜>", "<|endoftext|>", "</s>"}

// call is one call: its arguments are a JSON object, or a JSON string with what the model takes for one.
type call struct {
	name      string
	arguments json.RawMessage
}

func (c call) chat() chat.Call {
	arguments := c.arguments
	if arguments[0] != '"' {
		arguments = chat.Quote(string(arguments))
	}
	raw := append([]byte(`{"id":"","type":"function","function":{"name":`), chat.Quote(c.name)...)
	raw = append(append(append(raw, `,"arguments":`...), arguments...), "}}"...)
	return chat.Call{Name: c.name, Arguments: arguments, Raw: raw}
}

var errNoCall = errors.New("this is no call")

// after takes a closing mark off the beginning of text. The last one of a turn may be missing: servers cut it off as a
// stop word.
func after(text, closing string) string {
	text = strings.TrimLeft(text, blanks)
	return strings.TrimPrefix(text, closing)
}

// some is an error where there are no calls.
func some(calls []call, err error) error {
	if err == nil && len(calls) == 0 {
		return errNoCall
	}
	return err
}

// tagged reads what stands in one tool_call.
func tagged(text string) (calls []call, rest string, err error) {
	text = strings.TrimLeft(text, blanks)
	switch {
	case strings.HasPrefix(text, "<function="):
		calls, rest, err = functionTag(text[len("<function="):])
	case !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "["):
		return argumentTags(text)
	default:
		calls, rest, err = leading(text, "", false)
	}
	if err = some(calls, err); err != nil {
		return nil, "", err
	}
	return calls, after(rest, tagClose), nil
}

// within reads a form whose calls are JSON, a list or one after the other, up to its closing mark.
func within(closing string) func(string) ([]call, string, error) {
	return func(text string) ([]call, string, error) {
		calls, rest, err := leading(text, "", false)
		if err = some(calls, err); err != nil {
			return nil, "", err
		}
		return calls, after(rest, closing), nil
	}
}

// functools reads a list whose bracket is part of the mark.
func functools(text string) ([]call, string, error) { return within("")("[" + text) }

// llama reads calls parted by semicolons.
func llama(text string) ([]call, string, error) {
	calls, rest, err := leading(text, ";", false)
	return calls, after(rest, "<|eom_id|>"), some(calls, err)
}

// mistral reads the calls behind one mark: a list, or a name and its arguments.
func mistral(text string) ([]call, string, error) {
	text = strings.TrimLeft(text, blanks)
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") && strings.HasPrefix(strings.TrimLeft(text[1:], blanks), "{") {
		calls, rest, err := leading(text, "", false)
		return calls, rest, some(calls, err)
	}
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return nil, "", errNoCall
	}
	name, _ := strings.CutSuffix(strings.TrimSpace(text[:at]), "[ARGS]")
	name, _, _ = strings.Cut(name, "[CALL_ID]")
	c, rest, err := named(name, text[at:])
	return c, rest, err
}

// named reads the arguments of a call whose name is known: the JSON object that text begins with.
func named(name, text string) ([]call, string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	var arguments json.RawMessage
	if err := d.Decode(&arguments); err != nil {
		return nil, "", errors.Join(errNoCall, err)
	}
	if name = strings.TrimSpace(name); name == "" || arguments[0] != '{' {
		return nil, "", errNoCall
	}
	return []call{{name, arguments}}, text[d.InputOffset():], nil
}

// functionTag reads what follows <function=: a name, and JSON or a tag for each parameter.
func functionTag(text string) ([]call, string, error) {
	name, body, ok := strings.Cut(text, ">")
	if !ok {
		return nil, "", errNoCall
	}
	name = strings.Trim(name, ` "'`)
	body = strings.TrimLeft(body, blanks)
	if strings.HasPrefix(body, "{") {
		calls, rest, err := named(name, body)
		return calls, after(rest, "</function>"), err
	}
	return parameters(name, body, "</function>", parameterTag)
}

// A tag of a parameter, with its name: <parameter=NAME> of Qwen-Coder, <parameter name="NAME" …> of others.
var (
	parameterTag = regexp.MustCompile(`^<parameter=([^>]+)>`)
	namedTag     = regexp.MustCompile(`^<(?:｜DSML｜)?parameter\s+name="([^"]+)"[^>]*>`)
	invokeTag    = regexp.MustCompile(`^<(?:｜DSML｜)?invoke\s+name="([^"]+)"\s*>`)
)

// parameters reads tags with a parameter each, up to closing.
func parameters(name, text, closing string, tag *regexp.Regexp) ([]call, string, error) {
	var names, values []string
	for {
		text = strings.TrimLeft(text, blanks)
		if rest, ok := strings.CutPrefix(text, closing); ok {
			text = rest
			break
		}
		m := tag.FindStringSubmatch(text)
		if m == nil {
			return nil, "", errNoCall
		}
		text = text[len(m[0]):]
		end := strings.Index(text, "</parameter>")
		skip := len("</parameter>")
		if at := strings.Index(text, "</｜DSML｜parameter>"); at >= 0 && (end < 0 || at < end) {
			end, skip = at, len("</｜DSML｜parameter>")
		}
		if end < 0 {
			return nil, "", errNoCall
		}
		names, values = append(names, strings.Trim(m[1], ` "'`)), append(values, text[:end])
		text = text[end+skip:]
	}
	if strings.TrimSpace(name) == "" {
		return nil, "", errNoCall
	}
	return []call{{strings.TrimSpace(name), objectOf(names, values)}}, text, nil
}

// objectOf is arguments that came as texts. Lists and objects are taken as they are written; what else a text is, the
// tool's schema says when it is coerced.
func objectOf(names, values []string) json.RawMessage {
	b := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, chat.Quote(name)...), ':')
		v := strings.TrimSuffix(strings.TrimPrefix(values[i], "\n"), "\n")
		if t := strings.TrimSpace(v); t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
			b = append(b, t...)
		} else {
			b = append(b, chat.Quote(v)...)
		}
	}
	return append(b, '}')
}

// argumentTags reads GLM's form: a name, then tags with a key and a value each.
func argumentTags(text string) ([]call, string, error) {
	end := strings.Index(text, tagClose)
	if end < 0 {
		end = len(text)
	}
	body, rest := text[:end], strings.TrimPrefix(text[end:], tagClose)
	name, body, tags := strings.Cut(body, "<arg_key>")
	if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, " \t\r\n<>{}\"") {
		return nil, "", errNoCall
	}
	var names, values []string
	for tags {
		var key, value string
		var ok bool
		if key, body, ok = strings.Cut(body, "</arg_key>"); !ok {
			return nil, "", errNoCall
		}
		if body, ok = strings.CutPrefix(strings.TrimLeft(body, blanks), "<arg_value>"); !ok {
			return nil, "", errNoCall
		}
		if value, body, ok = strings.Cut(body, "</arg_value>"); !ok {
			return nil, "", errNoCall
		}
		names, values = append(names, strings.TrimSpace(key)), append(values, value)
		_, body, tags = strings.Cut(body, "<arg_key>")
	}
	return []call{{name, objectOf(names, values)}}, rest, nil
}

// invokes reads a form of <invoke name="NAME"> tags with a tag for each parameter.
func invokes(closing string) func(string) ([]call, string, error) {
	return func(text string) (all []call, rest string, err error) {
		for {
			text = strings.TrimLeft(text, blanks)
			m := invokeTag.FindStringSubmatch(text)
			if m == nil {
				return all, after(text, closing), some(all, nil)
			}
			end := "</invoke>"
			if strings.HasPrefix(m[0], "<｜DSML｜") {
				end = "</｜DSML｜invoke>"
			}
			calls, rest, err := parameters(m[1], text[len(m[0]):], end, namedTag)
			if err != nil {
				return nil, "", err
			}
			all, text = append(all, calls...), rest
		}
	}
}

// seed reads Seed-OSS's form, which is that of Qwen-Coder in its own tags.
func seed(text string) ([]call, string, error) {
	body, ok := strings.CutPrefix(strings.TrimLeft(text, blanks), "<function=")
	if !ok {
		return nil, "", errNoCall
	}
	calls, rest, err := functionTag(body)
	return calls, after(rest, "</seed:tool_call>"), err
}

// deepSeek reads calls that are each a name and JSON: behind a mark, or in a code fence.
func deepSeek(text string) ([]call, string, error) {
	return marked(text, "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", func(text string) ([]call, string, error) {
		name, body, _ := strings.Cut(text, "<｜tool▁sep｜>")
		if head, fenced, ok := strings.Cut(body, "```json"); ok && name == "function" {
			name, body = head, fenced
		}
		calls, rest, err := named(name, body)
		return calls, after(rest, "```"), err
	})
}

// kimi reads calls whose names come as functions.NAME:NUMBER.
func kimi(text string) ([]call, string, error) {
	return marked(text, "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>", func(text string) ([]call, string, error) {
		id, body, _ := strings.Cut(text, "<|tool_call_argument_begin|>")
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(id), "functions."), ":")
		return named(name, body)
	})
}

// marked reads calls that each stand between begin and end, up to closing. one reads what follows begin.
func marked(text, begin, end, closing string, one func(string) ([]call, string, error)) (all []call, rest string, err error) {
	for {
		body, ok := strings.CutPrefix(strings.TrimLeft(text, blanks), begin)
		if !ok {
			return all, after(text, closing), some(all, nil)
		}
		calls, rest, err := one(body)
		if err != nil {
			return nil, "", err
		}
		all, text = append(all, calls...), after(rest, end)
	}
}

// harmony reads what follows "commentary to=": a name, perhaps <|constrain|>json, and the arguments as the message.
func harmony(text string) ([]call, string, error) {
	head, body, ok := strings.Cut(text, "<|message|>")
	if !ok {
		return nil, "", errNoCall
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(head, "functions."), "<|")
	name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
	calls, rest, err := named(name, body)
	return calls, after(rest, "<|call|>"), err
}

// leading reads the values at the beginning of a text, which are calls or lists of calls with sep between, and gives
// what follows them.
func leading(text, sep string, strict bool) (calls []call, rest string, err error) {
	for {
		text = strings.TrimLeft(text, blanks)
		if sep != "" && len(calls) > 0 {
			text = strings.TrimLeft(strings.TrimPrefix(text, sep), blanks)
		}
		if text == "" || text[0] != '{' && (text[0] != '[' || len(calls) > 0) {
			return calls, text, nil
		}
		some, rest, err := callsIn(text, strict)
		if err != nil {
			return nil, "", err
		}
		calls, text = append(calls, some...), rest
	}
}

// callsIn reads the JSON value that text begins with as a call or a list of calls, and gives what follows it.
func callsIn(text string, strict bool) (calls []call, rest string, err error) {
	v, rest, err := value(text)
	if err != nil {
		return nil, "", errors.Join(errNoCall, err)
	}
	for _, item := range items(v) {
		c, ok := read(item, strict)
		if !ok {
			return nil, "", errNoCall
		}
		calls = append(calls, c)
	}
	return calls, rest, nil
}

// value is the JSON value that text begins with, and what follows it. An object in braces that stand twice, as templates
// with escapes teach some models, is taken for one.
func value(text string) (v json.RawMessage, rest string, err error) {
	twice := strings.HasPrefix(text, `{{"`)
	if twice {
		text = text[1:]
	}
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&v); err != nil {
		return nil, "", err
	}
	rest = text[d.InputOffset():]
	if twice {
		var closed bool
		if rest, closed = strings.CutPrefix(strings.TrimLeft(rest, blanks), "}"); !closed {
			return nil, "", errNoCall
		}
	}
	return v, rest, nil
}

func items(v json.RawMessage) []gjson.Result {
	if parsed := gjson.ParseBytes(v); parsed.IsArray() {
		return parsed.Array()
	}
	return []gjson.Result{gjson.ParseBytes(v)}
}

// read reads an object as a call: name and arguments, Llama's parameters, Command's tool_name, or OpenAI's own form with
// function. With strict, as nothing but the object says that it is a call, it needs arguments and may hold nothing else.
func read(v gjson.Result, strict bool) (c call, ok bool) {
	if !v.IsObject() {
		return c, false
	}
	ok = true
	v.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "name", "tool_name":
			c.name = v.Str
		case "function":
			if c.name = v.Str; v.IsObject() {
				c, ok = read(v, strict)
			}
		case "arguments", "parameters":
			c.arguments = argumentsOf(v)
			ok = ok && c.arguments != nil
		case "id", "tool_call_id":
		case "type":
			ok = ok && (!strict || v.Str == "function")
		default:
			ok = ok && !strict
		}
		return ok
	})
	if c.arguments == nil {
		c.arguments = json.RawMessage("{}")
		ok = ok && !strict
	}
	return c, ok && c.name != ""
}

// argumentsOf is a call's arguments, nil where they are none.
func argumentsOf(v gjson.Result) json.RawMessage {
	switch {
	case v.IsObject():
		var b bytes.Buffer
		if json.Compact(&b, []byte(v.Raw)) != nil {
			return nil
		}
		return b.Bytes()
	case v.Type == gjson.String:
		return chat.Quote(v.Str)
	case v.Type == gjson.Null:
		return json.RawMessage("{}")
	}
	return nil
}
