package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/internal/suggest"
)

var (
	typeDuration = reflect.TypeFor[Duration]()
	typeSize     = reflect.TypeFor[Size]()
	typeSecret   = reflect.TypeFor[Secret]()
)

// scalar sets v from a scalar, which is checked against the tags of its field.
func (n *Node) scalar(v reflect.Value, f field) {
	if v.Type() == typeSecret {
		n.secret(v)
		return
	}
	if err := n.convert(v); err != nil {
		n.failBad("%s, got %s%s", err, n.show(), n.meant(v))
		return
	}
	switch {
	case f.refuses(n.text) && n.hidden:
		n.failBad("this value is not supported yet")
	case f.refuses(n.text):
		n.failBad("%q is not supported yet", n.text)
	case f.enum != nil && !slices.Contains(f.enum, n.text):
		n.failBad("want one of %s, got %s%s", strings.Join(f.enum, ", "), n.show(), n.didYouMean(f.enum))
	case f.min != "" && below(v, f.min):
		n.failBad("want %s or more, got %s", f.min, n.show())
	}
}

// meant says what would be right where that shows in a value of the wrong kind.
func (n *Node) meant(v reflect.Value) string {
	switch {
	case n.kind == Mapping && v.Kind() == reflect.String && (n.Get("$file") != nil || n.Get("file") != nil):
		return `: the content of a file is "${file:PATH}"`
	case n.kind != String || n.hidden || v.Kind() == reflect.String || v.Type() == typeDuration || v.Type() == typeSize:
		return ""
	case plainKind(n.text) == Number && v.Kind() != reflect.Bool, plainKind(n.text) == Bool && v.Kind() == reflect.Bool:
		return ", a text: take the quotes off"
	case v.Kind() == reflect.Bool:
		return ""
	}
	if m := numberWithUnit.FindStringSubmatch(n.text); m != nil {
		return ": want it without the unit"
	}
	return ""
}

var numberWithUnit = regexp.MustCompile(`^[0-9][0-9.]* ?[A-Za-z]+$`)

// convert sets v or says what is wanted.
func (n *Node) convert(v reflect.Value) error {
	scalar := n.kind == String || n.kind == Number || n.kind == Bool
	switch {
	case v.Type() == typeDuration:
		if !scalar {
			return errors.New("want a duration such as 5s or 250ms")
		}
		d, err := ParseDuration(n.text)
		v.SetInt(int64(d))
		return err
	case v.Type() == typeSize:
		if !scalar {
			return errors.New("want a size such as 20MiB, 5MB or a number of bytes")
		}
		s, err := ParseSize(n.text)
		v.SetInt(int64(s))
		return err
	case v.Kind() == reflect.String:
		if !scalar {
			return errors.New("want a text")
		}
		v.SetString(n.text)
		return nil
	case v.Kind() == reflect.Bool:
		if n.typed() != Bool {
			return errors.New("want true or false")
		}
		v.SetBool(strings.EqualFold(n.text, "true"))
		return nil
	case v.CanInt():
		return n.integer(v)
	case v.CanUint():
		return n.natural(v)
	case v.CanFloat():
		f, err := strconv.ParseFloat(numberJSON(n.text), 64)
		if n.typed() != Number || err != nil || v.OverflowFloat(f) {
			return errors.New("want a number")
		}
		v.SetFloat(f)
		return nil
	}
	panic(fmt.Sprintf("config: no way to decode into %s (for a mapping of the user's keys there is Map)", v.Type()))
}

// typed is the kind of the value where the target is a number or a boolean: what ${...} gave counts by its text.
func (n *Node) typed() Kind {
	if n.replaced && n.kind == String {
		return plainKind(n.text)
	}
	return n.kind
}

func (n *Node) integer(v reflect.Value) error {
	text := numberJSON(n.text)
	if n.typed() != Number || strings.ContainsAny(text, ".eE") {
		return errors.New("want a whole number")
	}
	i, err := strconv.ParseInt(text, 10, v.Type().Bits())
	if err != nil {
		limit := int64(1) << (v.Type().Bits() - 1)
		return fmt.Errorf("want a whole number from %d to %d", -limit, limit-1)
	}
	v.SetInt(i)
	return nil
}

func (n *Node) natural(v reflect.Value) error {
	text := numberJSON(n.text)
	if n.typed() != Number || strings.ContainsAny(text, ".eE") {
		return errors.New("want a whole number")
	}
	u, err := strconv.ParseUint(text, 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("want a whole number from 0 to %d", ^uint64(0)>>(64-v.Type().Bits()))
	}
	v.SetUint(u)
	return nil
}

// secret sets a Secret and remembers it. No message tells what stands there.
func (n *Node) secret(v reflect.Value) {
	switch n.kind {
	case String, Number, Bool:
		v.SetString(n.text)
		n.doc.file.addSecret(n.text)
		n.masked = true
	default:
		n.failBad("want a text, got %s%s", n.kind, n.meant(v))
	}
}

// want reports a value of another kind.
func (n *Node) want(k Kind) bool {
	if n.kind == k {
		return true
	}
	hint := ""
	if k == List && n.kind == Mapping {
		hint = ": begin each item with a dash, as in - {key: value}"
	}
	n.failBad("want %s, got %s%s", k, n.show(), hint)
	return false
}

// show is the value in a message: short, and hidden where it came from outside the file.
func (n *Node) show() string {
	switch {
	case n.kind == Null, n.kind == List, n.kind == Mapping:
		return n.kind.String()
	case n.hidden:
		return mask
	case n.kind == String:
		return strconv.Quote(shorten(n.text))
	default:
		return shorten(n.text)
	}
}

func shorten(s string) string {
	const limit = 60
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

func (n *Node) didYouMean(among []string) string {
	if n.hidden {
		return ""
	}
	if near := suggest.Nearest(n.text, among, 1); len(near) > 0 {
		return fmt.Sprintf(": did you mean %q?", near[0])
	}
	return ""
}

// below says whether a number, a Duration or a Size is under the min of its field.
func below(v reflect.Value, limit string) bool {
	switch {
	case v.Type() == typeDuration:
		d, err := ParseDuration(limit)
		mustTag(err, limit)
		return v.Int() < int64(d)
	case v.Type() == typeSize:
		s, err := ParseSize(limit)
		mustTag(err, limit)
		return v.Int() < int64(s)
	case v.CanFloat():
		f, err := strconv.ParseFloat(limit, 64)
		mustTag(err, limit)
		return v.Float() < f
	case v.CanUint():
		u, err := strconv.ParseUint(limit, 10, 64)
		mustTag(err, limit)
		return v.Uint() < u
	default:
		i, err := strconv.ParseInt(limit, 10, 64)
		mustTag(err, limit)
		return cmp.Less(v.Int(), i)
	}
}

func mustTag(err error, tag string) {
	if err != nil {
		panic(fmt.Sprintf("config: bad tag min:%q: %v", tag, err))
	}
}
