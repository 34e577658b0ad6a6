package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// operation is one method of one path.
type operation struct {
	method string // GET
	path   string // /pets/{petId}
	id     string // its operationId, "" where it has none
	value  *jsontree.Value
	item   *jsontree.Value // the path's, which has parameters and servers for all of its methods

	tool   string       // the name of its tool
	short  string       // the same without the prefix
	chosen bool         // it is to become one
	named  *config.Node // where the file names it without a *, nil where it does not
	set    *config.Node // what the file sets of its tool
}

// String is the operation as people write it, and as include takes it.
func (o *operation) String() string { return o.method + " " + o.path }

// names are what the file may call the operation by.
func (o *operation) names() []string {
	if o.id == "" {
		return []string{o.tool, o.short}
	}
	return []string{o.id, o.tool, o.short}
}

// methods are the keys of a path that are operations. TRACE is none for a tool: it shows what proxies add.
var methods = map[string]string{
	"get": "GET", "put": "PUT", "post": "POST", "delete": "DELETE", "options": "OPTIONS", "head": "HEAD", "patch": "PATCH",
}

// operations are those of the document, in its order.
func (d *document) operations(w *warnings) []*operation {
	var list []*operation
	for _, p := range members(d.root.Get("paths")) {
		if !strings.HasPrefix(p.Key, "/") {
			continue // an extension
		}
		item, err := d.follow(p.Value)
		if err != nil {
			w.add(&operation{method: "path", path: p.Key}, "left out: %v", err)
			continue
		}
		for _, m := range members(item) {
			if method := methods[m.Key]; method != "" && m.Value.Is(jsontree.Object) {
				list = append(list, &operation{
					method: method, path: p.Key, item: item, value: m.Value,
					id: text(m.Value.Get("operationId")),
				})
			}
		}
	}
	return list
}

// description is what the model reads of the operation: its summary and description, of up to maxDescription
// characters; where nothing is left of them that it may read, the method and the path.
func (o *operation) description(clean scrubber) string {
	summary := clean.words(text(o.value.Get("summary")))
	more := clean.words(text(o.value.Get("description")))
	switch {
	case summary == "" && more == "":
		return o.unsaid(clean)
	case more == "":
		return summary
	case strings.HasPrefix(more, strings.TrimRight(summary, ".")):
		return more
	}
	return clean.words(summary + "\n" + more)
}

// unsaid is the description of an operation that has none.
func (o *operation) unsaid(clean scrubber) string { return clean.words(o.String()) }

// warnings collects what is said of operations, so that one fault of a schema that fifty of them use is told once.
type warnings struct {
	order []string
	of    map[string][]string // by message
}

func (w *warnings) add(o *operation, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if w.of == nil {
		w.of = map[string][]string{}
	}
	if w.of[message] == nil {
		w.order = append(w.order, message)
	}
	if who := o.String(); !slices.Contains(w.of[message], who) {
		w.of[message] = append(w.of[message], who)
	}
}

// report warns at n of all that was collected about the document called name.
func (w *warnings) report(n *config.Node, name string) {
	const most = 3
	for _, message := range w.order {
		who := w.of[message]
		if more := len(who) - most; more > 0 {
			who = append(slices.Clip(who[:most]), fmt.Sprintf("%d more", more))
		}
		n.Warn("%s: %s: %s", name, strings.Join(who, ", "), message)
	}
}
