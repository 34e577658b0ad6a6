package openapi

import (
	"slices"

	"github.com/toolgate/toolgate/internal/schema/jsontree"
)

// adviseCredentials warns where chosen operations ask for credentials and the entry sends none. What it sends is not
// compared with what they want: a proxy of the operator's own may stand between.
func (m *maker) adviseCredentials(operations []*operation) {
	if m.config.Auth != nil || m.config.Headers.Len() > 0 || credentials.MatchString(m.config.BaseURL) {
		return
	}
	for _, o := range operations {
		if scheme := m.doc.scheme(o); o.chosen && scheme != "" {
			m.node.Get("spec").Warn("%s: %s asks for credentials (%s), and the entry has neither auth nor headers", m.config.Spec, o, cut(scheme, maxName))
			return
		}
	}
}

// scheme is the name of a security scheme without which the operation can't be called, "" where it can.
func (d *document) scheme(o *operation) string {
	wanted := o.value.Get("security")
	if wanted == nil {
		wanted = d.root.Get("security")
	}
	// The list is of alternatives; an empty one is none at all.
	if slices.ContainsFunc(items(wanted), func(v *jsontree.Value) bool { return len(members(v)) == 0 }) {
		return ""
	}
	for _, alternative := range items(wanted) {
		return alternative.Members[0].Key
	}
	return ""
}
