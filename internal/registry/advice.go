package registry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
)

// Advise warns of tools that models use badly, however right their YAML is. Each piece of advice has a rule's name; a
// comment `# toolgate: allow RULE` at the tool switches it off there, and at `tools` for the whole file. strangers says
// whether tools that are found later may be untrusted.
func (d *Definitions) Advise(root *config.Node, strangers bool) {
	a := adviser{root: root, tools: root.Get("tools")}
	strangers = strangers || slices.ContainsFunc(d.list, func(def *definition) bool { return def.common.Untrusted })
	for i, def := range d.list {
		if def.at != a.tools { // found in another document, whose author is somebody else
			continue
		}
		for _, rule := range toolRules {
			if text := rule.look(def); text != "" {
				a.warn(def.spec.Name, rule.name, text)
			}
		}
		if name, text := besideStrangers(def, strangers); name != "" {
			a.warn(def.spec.Name, name, text)
		}
		if text := likeOthers(def, d.list[:i]); text != "" {
			a.warn(def.spec.Name, "similar-tools", text)
		}
	}
	if n := len(d.list); n > manyTools && !root.Allows("tools", "many-tools") {
		root.Get("tools").Warn("many-tools: %d tools are more than a small model tells apart; narrow them by models.NAME.tools", n)
	}
}

// likeOthers says which of the tools before it one is like, once for all of them.
func likeOthers(def *definition, before []*definition) string {
	first, more := "", 0
	for _, other := range before {
		switch {
		case !alike(def, other):
		case first == "":
			first = other.spec.Name
		default:
			more++
		}
	}
	switch {
	case first == "":
		return ""
	case more == 0:
		return fmt.Sprintf("name and description are much like those of %s: the model will confuse the two", first)
	}
	return fmt.Sprintf("name and description are much like those of %s and %d more: the model will confuse them", first, more)
}

type adviser struct{ root, tools *config.Node }

func (a adviser) warn(name, rule, text string) {
	if !a.tools.Allows(name, rule) && !a.root.Allows("tools", rule+"-everywhere") {
		a.tools.Get(name).Warn("%s: %s (# toolgate: allow %s)", rule, text, rule)
	}
}

// manyTools is how many a small model still tells apart.
const manyTools = 20

// toolRules look at one tool each, and say what is wrong with it or nothing.
var toolRules = []struct {
	name string
	look func(*definition) string
}{
	{"short-description", shortDescription},
	{"placeholder-name", placeholderName},
	{"undescribed-parameter", undescribed},
	{"vague-parameter", vague},
	{"free-text", freeText},
	{"action-enum", actionEnum},
	{"unguarded-write", unguarded},
}

func shortDescription(d *definition) string {
	words := strings.FieldsFunc(strings.ToLower(d.common.Description), func(r rune) bool { return r == ' ' || r == '.' || r == ',' })
	if len(words) >= 4 {
		return ""
	}
	return "the description says too little for a model to choose by: what does the tool do, and when is it of use?"
}

var dummy = regexp.MustCompile(`(?i)^(my_?)?(func|function|tool|test|foo|bar|action|do_?it)_?\d*$`)

func placeholderName(d *definition) string {
	if dummy.MatchString(d.spec.Name) {
		return "the name says nothing: want a verb and what it is done to, such as lookup_order"
	}
	return ""
}

// shownParams are the parameters that the model sees, in the schema's order.
func (d *definition) shownParams() []string {
	return slices.DeleteFunc(slices.Clone(d.schema.Properties()), func(p string) bool { return d.spec.Params[p].Bound })
}

func (d *definition) param(name string) gjson.Result {
	return gjson.ParseBytes(d.schema.Property(name))
}

func undescribed(d *definition) string {
	var names []string
	for _, p := range d.shownParams() {
		v := d.param(p)
		if v.Get("description").String() == "" && !v.Get("enum").Exists() && !v.Get("pattern").Exists() && !v.Get("format").Exists() && v.Get("type").String() != "boolean" {
			names = append(names, p)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "no description of " + strings.Join(names, ", ") + ": the model guesses what belongs there"
}

var vagueNames = []string{"data", "input", "value", "payload", "args", "params", "object", "info", "content"}

func vague(d *definition) string {
	for _, p := range d.shownParams() {
		if slices.Contains(vagueNames, strings.ToLower(p)) {
			return fmt.Sprintf("the parameter name %q says nothing: name what it holds", p)
		}
	}
	return ""
}

func freeText(d *definition) string {
	params := d.shownParams()
	if d.spec.Effect != tool.Write || len(params) != 1 {
		return ""
	}
	v := d.param(params[0])
	if v.Get("type").String() != "string" || v.Get("enum").Exists() || v.Get("pattern").Exists() || v.Get("format").Exists() || v.Get("maxLength").Exists() {
		return ""
	}
	return fmt.Sprintf("a write takes one free text, %q: fields of their own can be checked", params[0])
}

var actionNames = []string{"action", "operation", "command", "op", "method", "mode"}

func actionEnum(d *definition) string {
	for _, p := range d.shownParams() {
		if slices.Contains(actionNames, strings.ToLower(p)) && len(d.param(p).Get("enum").Array()) > 1 {
			return fmt.Sprintf("the enum %q makes one tool of many: a tool for each is chosen better, and permitted apart", p)
		}
	}
	return ""
}

func unguarded(d *definition) string {
	if d.spec.Effect == tool.Write && !d.spec.Idempotent && (d.common.Confirm.By == ConfirmNone || d.common.Confirm.After != "") && d.kind != "handoff" {
		return "a write without idempotent or a confirm of each call may be done twice by a client that repeats its request"
	}
	return ""
}

// besideStrangers is what is wrong with a write where the file has untrusted tools, or with what it says of them where it
// has none.
func besideStrangers(d *definition, strangers bool) (rule, text string) {
	switch c := d.common.Confirm; {
	case strangers && d.spec.Effect == tool.Write && c.By == ConfirmNone && d.kind != "handoff":
		return "untrusted-write", "a write without confirm beside untrusted tools: what a stranger wrote may make the model call it; want confirm: {by: approval, after: untrusted}"
	case !strangers && c.After != "":
		return "nothing-untrusted", "is confirmed after untrusted, and no tool is untrusted, so that it never is"
	}
	return "", ""
}

// alike says whether a model would confuse two tools.
func alike(a, b *definition) bool {
	return near(a.spec.Name, b.spec.Name) && overlap(words(a.common.Description), words(b.common.Description)) >= 0.6 ||
		overlap(words(a.common.Description), words(b.common.Description)) >= 0.95
}

func near(a, b string) bool {
	return levenshtein.ComputeDistance(a, b)*3 <= max(len(a), len(b))
}

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune(" .,;:()", r) }) {
		set[w] = true
	}
	return set
}

// overlap is how much of both texts' words stand in both, from 0 to 1.
func overlap(a, b map[string]bool) float64 {
	both := 0
	for w := range a {
		if b[w] {
			both++
		}
	}
	all := len(a) + len(b) - both
	if all == 0 {
		return 0
	}
	return float64(both) / float64(all)
}
