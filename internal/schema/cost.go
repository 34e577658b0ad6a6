package schema

// maxChecks is how many times, at most, a schema may be held against a value for one call of Validate: about a second.
const maxChecks = 1 << 20

// cost bounds what a check may take. A recursive schema whose items must conform to it twice (allOf: [tree, tree])
// doubles the work with every level of nesting: 64 levels, a few hundred characters, would take for ever, and the
// library can't be interrupted.
type cost struct {
	forms     int
	recursive bool
	spread    map[*form]map[*form]float64 // what is held against the same value, and how often
}

// newCost is the cost of a schema of these forms, nil when it is out of bounds whatever the value.
func newCost(forms []*form, recursive bool) *cost {
	c := &cost{forms: len(forms), recursive: recursive, spread: make(map[*form]map[*form]float64, len(forms))}
	size := 0
	for _, f := range forms {
		if size += c.spreadOf(f); size > 1<<18 {
			return nil
		}
	}
	return c
}

// spreadOf fills in c.spread for f and returns how much it added.
func (c *cost) spreadOf(f *form) int {
	if c.spread[f] != nil {
		return 0
	}
	added := 0
	own := map[*form]float64{f: 1}
	c.spread[f] = own
	for _, group := range append([][]*form{f.together, f.sometimes}, f.choices...) {
		for _, next := range group {
			added += c.spreadOf(next)
			for g, n := range c.spread[next] {
				own[g] += n
			}
		}
	}
	return added + len(own)
}

// affordable says whether v, which consists of so many values, can be checked against f in the bounds.
func (c *cost) affordable(f *form, v any, values int) bool {
	if !c.recursive && c.forms*values <= maxChecks {
		return true // no schema is held against a value twice
	}
	left := float64(maxChecks)
	c.spend(v, map[*form]float64{f: 1}, &left)
	return left > 0
}

// spend takes from left what it costs to hold each of fs against v so many times.
func (c *cost) spend(v any, fs map[*form]float64, left *float64) {
	all := map[*form]float64{}
	for f, n := range fs {
		for g, times := range c.spread[f] {
			all[g] += n * times
			*left -= n * times
		}
	}
	if *left <= 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			c.spend(value, c.below(all, func(f *form) []*form { return f.under(name) }), left)
			if *left <= 0 {
				return
			}
		}
	case []any:
		for i, value := range v {
			c.spend(value, c.below(all, func(f *form) []*form { return f.at(i) }), left)
			if *left <= 0 {
				return
			}
		}
	}
}

func (c *cost) below(all map[*form]float64, next func(*form) []*form) map[*form]float64 {
	fs := map[*form]float64{}
	for f, n := range all {
		for _, g := range next(f) {
			fs[g] += n
		}
		for _, g := range f.scanned {
			fs[g] += n
		}
	}
	return fs
}
