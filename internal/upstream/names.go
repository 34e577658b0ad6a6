package upstream

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/toolgate/toolgate/internal/chat"
)

// renames are names of tools that a provider does not take, and what they go out as. nil renames nothing.
type renames struct{ out, back map[string]string }

// rename finds the names that need another; ours are those of the gateway's tools. What it gives depends on the names in
// the request alone, and no two of them become one.
func (t *dialect) rename(d *draft, ours []string, talk *conversation) *renames {
	if t.names == nil {
		return nil
	}
	names := declaredNames(d.value("tools"))
	names = append(names, ours...)
	names = append(names, choiceNames(d.value("tool_choice"))...)
	names = append(names, talk.names()...)
	taken := map[string]bool{}
	var unfit []string
	for _, name := range names {
		switch {
		case taken[name]:
			continue
		case !t.names.MatchString(name):
			unfit = append(unfit, name)
		}
		taken[name] = true
	}
	if len(unfit) == 0 {
		return nil
	}
	r := &renames{out: map[string]string{}, back: map[string]string{}}
	for _, name := range unfit {
		fit := t.fitting(name, taken)
		taken[fit] = true
		r.out[name], r.back[fit] = fit, name
	}
	return r
}

// fitting is a name that the provider takes and nobody has: the one it stands for as far as it goes, else with a part
// of its hash.
func (t *dialect) fitting(name string, taken map[string]bool) string {
	free := func(s string) bool { return !taken[s] && t.names.MatchString(s) }
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, name)
	for _, s := range []string{clean, "t_" + clean} {
		if free(s) {
			return s
		}
	}
	for n := 0; ; n++ {
		hashed := hashedName(name, n)
		for _, s := range []string{
			clean[:min(len(clean), 48)] + "_" + hashed[1:],
			"t_" + clean[:min(len(clean), 48)] + "_" + hashed[1:],
			hashed,
		} {
			if free(s) {
				return s
			}
		}
	}
}

// hashedName is the last name that is tried for one, n counting those that are taken. Every pattern takes it, which
// the check of the file sees to.
func hashedName(name string, n int) string {
	sum := sha256.Sum256([]byte(name + "\x00" + strconv.Itoa(n)))
	return fmt.Sprintf("t%x", sum[:4])
}

// choiceNames are the names in a tool_choice.
func choiceNames(choice json.RawMessage) []string {
	var names []string
	eachChoiceName(choice, func(_ string, name string) { names = append(names, name) })
	return names
}

// eachChoiceName goes through the places of names in a tool_choice: one tool, or a list of those that are allowed.
func eachChoiceName(choice json.RawMessage, f func(path, name string)) {
	if len(choice) == 0 || choice[0] != '{' {
		return
	}
	look := func(path string) {
		if name := gjson.GetBytes(choice, path); name.Type == gjson.String {
			f(path, name.Str)
		}
	}
	look("function.name")
	look("custom.name")
	for i := range gjson.GetBytes(choice, "allowed_tools.tools").Array() {
		look("allowed_tools.tools." + strconv.Itoa(i) + ".function.name")
		look("allowed_tools.tools." + strconv.Itoa(i) + ".custom.name")
	}
}

// declare puts the names into the tools and the choice among them.
func (r *renames) declare(d *draft) {
	if r == nil {
		return
	}
	if list := d.value("tools"); len(list) > 0 && list[0] == '[' {
		if now := r.inTools(list); string(now) != string(list) {
			if len(d.edits.Tools) > 0 {
				now = chat.List([]json.RawMessage{now[1 : len(now)-1], r.inJoined(d.edits.Tools)})
				d.edits.Tools = nil
			}
			d.set("tools", now)
		}
	}
	d.edits.Tools = r.inJoined(d.edits.Tools)
	choice := d.value("tool_choice")
	now := choice
	eachChoiceName(choice, func(path, name string) {
		if to, ok := r.out[name]; ok {
			now = setRaw(now, path, chat.Quote(to))
		}
	})
	if string(now) != string(choice) {
		d.set("tool_choice", now)
	}
}

// inJoined is inTools for tools that are joined by commas.
func (r *renames) inJoined(tools []byte) []byte {
	if len(tools) == 0 {
		return tools
	}
	list := r.inTools(append(append([]byte{'['}, tools...), ']'))
	return list[1 : len(list)-1]
}

func (r *renames) inTools(list []byte) []byte {
	now := list
	for i, tool := range gjson.ParseBytes(list).Array() {
		for _, path := range []string{"function.name", "custom.name"} {
			if to, ok := r.out[tool.Get(path).String()]; ok {
				now = setRaw(now, strconv.Itoa(i)+"."+path, chat.Quote(to))
			}
		}
	}
	return now
}

// restore gives the calls of a turn the names that the client and the gateway know.
func (r *renames) restore(turn *chat.Turn) error {
	if r == nil {
		return nil
	}
	return turn.Rename(func(name string) string {
		if own, ok := r.back[name]; ok {
			return own
		}
		return name
	})
}

// setRaw sets a value in a JSON text. What can't be set stays.
func setRaw(b []byte, path string, value []byte) []byte {
	if now, err := sjson.SetRawBytes(b, path, value); err == nil {
		return now
	}
	return b
}

// deleted takes a value out of a JSON text.
func deleted(b []byte, path string) []byte {
	if now, err := sjson.DeleteBytes(b, path); err == nil {
		return now
	}
	return b
}
