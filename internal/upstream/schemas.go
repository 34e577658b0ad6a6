package upstream

import (
	"sync"

	"github.com/tidwall/gjson"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// prepared are the gateway's tools as a provider takes them, and their names in order.
type prepared struct {
	tools []byte
	names []string
}

// maxPrepared bounds how many different tools, views of callers and models, a toolsCache keeps.
const maxPrepared = 64

// toolsCache keeps what was made of tools, since each step of a run sends the same.
type toolsCache struct {
	drop map[string]bool // keywords that the provider refuses

	mu   sync.Mutex
	made map[string]prepared // by the tools as they come
}

func newToolsCache(drop []string) *toolsCache {
	c := &toolsCache{drop: map[string]bool{}, made: map[string]prepared{}}
	for _, keyword := range drop {
		c.drop[keyword] = true
	}
	return c
}

// prepared is what a provider gets in place of tools, which are joined by commas.
func (c *toolsCache) prepared(tools []byte) prepared {
	if len(tools) == 0 {
		return prepared{tools: tools}
	}
	c.mu.Lock()
	p, ok := c.made[string(tools)]
	c.mu.Unlock()
	if ok {
		return p
	}
	p = c.prepare(tools)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) >= maxPrepared {
		clear(c.made)
	}
	c.made[string(tools)] = p
	return p
}

func (c *toolsCache) prepare(tools []byte) prepared {
	p := prepared{tools: tools}
	list := append(append([]byte{'['}, tools...), ']')
	if len(c.drop) > 0 {
		if tree, err := jsontree.Parse(list); err == nil { // else the provider may say what it thinks of them
			for _, tool := range tree.Items {
				if parameters := tool.Get("function").Get("parameters"); parameters != nil {
					dropKeywords(parameters, c.drop)
				}
			}
			list = tree.JSON()
			p.tools = list[1 : len(list)-1]
		}
	}
	p.names = declaredNames(list)
	return p
}

// declaredNames are the names in a list of tools, in order.
func declaredNames(list []byte) []string {
	var names []string
	gjson.ParseBytes(list).ForEach(func(_, tool gjson.Result) bool {
		for _, path := range []string{"function.name", "custom.name"} {
			if name := tool.Get(path); name.Type == gjson.String {
				names = append(names, name.Str)
			}
		}
		return true
	})
	return names
}

// Where schemas stand in a schema (JSON Schema 2020-12, core 10, and what older drafts have).
var (
	schemaMaps  = []string{"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaOnes  = []string{
		"items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "propertyNames",
		"unevaluatedProperties", "not", "if", "then", "else", "contentSchema",
	}
)

// dropKeywords takes keywords out of a schema at every level. Properties that are called so stay, as does what stands
// in enum, const, default and examples.
func dropKeywords(s *jsontree.Value, drop map[string]bool) {
	if s.Is(jsontree.List) { // items of older drafts
		for _, item := range s.Items {
			dropKeywords(item, drop)
		}
		return
	}
	if !s.Is(jsontree.Object) {
		return
	}
	for keyword := range drop {
		s.Delete(keyword)
	}
	for _, keyword := range schemaMaps {
		if of := s.Get(keyword); of.Is(jsontree.Object) {
			for _, m := range of.Members {
				dropKeywords(m.Value, drop)
			}
		}
	}
	for _, keyword := range schemaLists {
		if of := s.Get(keyword); of.Is(jsontree.List) {
			dropKeywords(of, drop)
		}
	}
	for _, keyword := range schemaOnes {
		if of := s.Get(keyword); of != nil {
			dropKeywords(of, drop)
		}
	}
}
