package schema

import "maps"

// FillDefaults puts in the defaults of properties that are absent, in args and in the objects within it, which it
// changes. Where the schema takes no null, null counts as absent. A choice (anyOf, oneOf) fills in the defaults of a
// branch only where that alone can take the value.
func (s *Schema) FillDefaults(args map[string]any) {
	f := filler{left: 10_000}
	f.fill([]*form{s.form}, args)
}

// filler fills in one call's defaults. Defaults may have defaults: within one, no schema fills in again what it is
// filling in already, and left bounds the number of all.
type filler struct {
	left   int
	within map[*property]bool
}

func (r *filler) fill(fs []*form, v any) {
	switch v := v.(type) {
	case map[string]any:
		sure, _ := certain(fs, v)
		filled := map[string]bool{}
		for _, f := range sure {
			for _, p := range f.properties {
				if r.preset(p, v) {
					filled[p.name] = true
				}
			}
		}
		for name, value := range v {
			if filled[name] {
				continue // with what belongs in it
			}
			var below []*form
			for _, f := range sure {
				below = append(below, f.under(name)...)
			}
			r.fill(below, value)
		}
	case []any:
		sure, _ := certain(fs, v)
		for i, item := range v {
			var below []*form
			for _, f := range sure {
				below = append(below, f.at(i)...)
			}
			r.fill(below, item)
		}
	}
}

// preset gives m the default of p, if it has one and m lacks it, and says whether it did.
func (r *filler) preset(p *property, m map[string]any) bool {
	now, there := m[p.name]
	if p.preset == nil || there && (now != nil || p.form.allowed()&isNull != 0) || r.within[p] || r.left <= 0 {
		return false
	}
	r.left--
	value := p.preset.Any()
	before := maps.Clone(r.within)
	if r.within == nil {
		r.within = map[*property]bool{}
	}
	r.within[p] = true
	r.fill([]*form{p.form}, value)
	r.within = before
	m[p.name] = value
	return true
}
