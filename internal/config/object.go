package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// object is a JSON object whose keys keep the order in which they were set.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// set sets or replaces the value of a key.
func (o *object) set(key string, value any) *object {
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	if !slices.Contains(o.keys, key) {
		o.keys = append(o.keys, key)
	}
	o.values[key] = encode(value)
	return o
}

// and adds the keys of other that o has not.
func (o *object) and(other *object) *object {
	for _, k := range other.keys {
		if _, has := o.values[k]; !has {
			o.set(k, other.values[k])
		}
	}
	return o
}

func (o *object) json() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		writeString(&b, k)
		b.WriteByte(':')
		b.Write(o.values[k])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encode is v as JSON with its characters unescaped. What does not marshal is a fault of the program.
func encode(v any) json.RawMessage {
	switch v := v.(type) {
	case *object:
		return v.json()
	case []*object:
		raws := make([]json.RawMessage, len(v))
		for i, o := range v {
			raws[i] = o.json()
		}
		return encode(raws)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("config: schema: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// readObject keeps the order of a JSON object's keys.
func readObject(raw json.RawMessage) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var o object
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		o.set(key.(string), value)
	}
	return &o, nil
}
