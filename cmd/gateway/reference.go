package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// reference is the configuration's JSON Schema as a document for people: a table for each section.
func reference(schema []byte) string {
	var b strings.Builder
	b.WriteString(`# Configuration reference

Made from the file's JSON Schema by ` + "`gateway schema --markdown`" + `; do not edit it. NAME stands for a name of your own, [] for each
item of a list. Durations are written as 1m30s, 250ms; sizes as 20MiB. Every value may be ` + "`${NAME}`, `${NAME:-default}` or `${file:PATH}`" + `.
`)
	root := gjson.ParseBytes(schema)
	root.Get("properties").ForEach(func(key, section gjson.Result) bool {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", key.Str, section.Get("description").Str)
		rows := rowsOf(section, key.Str)
		if len(rows) == 0 {
			fmt.Fprintf(&b, "%s\n", strings.TrimSpace(kindOf(section)+defaultOf(section)))
			return true
		}
		b.WriteString("| key | value | default | |\n|---|---|---|---|\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.path, cell(r.kind), cell(r.value), cell(r.text))
		}
		return true
	})
	return b.String()
}

// row is one key of the file.
type row struct{ path, kind, value, text string }

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// rowsOf are the keys below a value.
func rowsOf(v gjson.Result, path string) []row {
	var rows []row
	v.Get("properties").ForEach(func(key, property gjson.Result) bool {
		rows = append(rows, rowOf(property, path+"."+key.Str)...)
		return true
	})
	if each := v.Get("additionalProperties"); each.IsObject() {
		rows = append(rows, below(each, path+".NAME")...)
	}
	if items := v.Get("items"); items.IsObject() {
		rows = append(rows, below(items, path+"[]")...)
	}
	for _, form := range v.Get("anyOf").Array() {
		rows = append(rows, rowsOf(form, path)...)
	}
	return rows
}

// below are the keys of each item, or one row for items that have none.
func below(v gjson.Result, path string) []row {
	if v.Get("properties").Exists() || len(rowsOf(v, path)) > 0 {
		return rowsOf(v, path)
	}
	if v.Get("description").Exists() {
		return rowOf(v, path)
	}
	return nil
}

// rowOf is a key, with those below it.
func rowOf(v gjson.Result, path string) []row {
	return append([]row{{path, kindOf(v), strings.TrimPrefix(defaultOf(v), "default "), v.Get("description").Str}}, rowsOf(v, path)...)
}

func defaultOf(v gjson.Result) string {
	d := v.Get("default")
	if !d.Exists() {
		return ""
	}
	return "default `" + strings.ReplaceAll(d.Raw, ",\"", ", \"") + "`"
}

// kindOf says what may be written for a value.
func kindOf(v gjson.Result) string {
	var words []string
	add := func(word string) {
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	substituted := func(pattern string) bool { return pattern == `\$\{` }
	for _, form := range v.Get("anyOf").Array() {
		if !substituted(form.Get("pattern").Str) {
			add(kindOf(form))
		}
	}
	for _, value := range v.Get("enum").Array() {
		add("`" + value.String() + "`")
	}
	if len(words) > 0 {
		return strings.Join(words, ", ")
	}
	pattern := v.Get("pattern").Str
	switch {
	case strings.Contains(pattern, "ns|us"):
		return "duration"
	case strings.Contains(pattern, "[KMGT]i?B"):
		return "size"
	}
	types := v.Get("type").Array()
	if len(types) == 0 {
		return "any"
	}
	for _, t := range types {
		switch {
		case t.Str == "string" && len(types) > 1 && substituted(pattern): // of what is replaced
		case t.Str == "array":
			if items := v.Get("items"); items.Get("type").Exists() && !items.Get("properties").Exists() {
				add("list of " + kindOf(items) + "s")
			} else {
				add("list")
			}
		case t.Str == "object":
			add("mapping")
		case t.Str == "boolean":
			add("true, false")
		case t.Str == "string":
			add("text")
		default:
			add(t.Str)
		}
	}
	if least := v.Get("minimum"); least.Exists() && least.Raw != "0" {
		add("from " + least.Raw)
	}
	return strings.Join(words, ", ")
}
