package config

import (
	"fmt"
	"reflect"
	"strings"
)

// field is a key that a struct takes, from the tags of one of its fields. Fields without a yaml tag are not the file's.
type field struct {
	name  string // the key
	doc   string // its description in the schema
	enum  []string
	min   string
	later string // "*": the key is not supported yet; else the values that are not, with commas
	index []int  // for FieldByIndex
	typ   reflect.Type
}

// fieldsOf is the keys of a struct type in its order; the fields of structs with `yaml:",inline"` stand among them.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("yaml")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case !tagged || name == "-":
			continue
		case inline(sf):
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				fields = append(fields, f)
			}
			continue
		case !sf.IsExported():
			panic(fmt.Sprintf("config: field %s of %s has a yaml tag but is unexported", sf.Name, t))
		}
		f := field{
			name: name, doc: sf.Tag.Get("doc"), min: sf.Tag.Get("min"), later: sf.Tag.Get("later"),
			index: []int{i}, typ: sf.Type,
		}
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.enum = strings.Split(enum, ",")
		}
		fields = append(fields, f)
	}
	return fields
}

// inline says whether the keys of a field's struct stand among those of the struct around it.
func inline(sf reflect.StructField) bool {
	_, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
	return option == "inline"
}

// refuses says whether the scalar value of the field is not supported yet.
func (f field) refuses(value string) bool {
	for later := range strings.SplitSeq(f.later, ",") {
		if later != "" && later == value {
			return true
		}
	}
	return false
}
