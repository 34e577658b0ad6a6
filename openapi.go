// Package toolgate holds what the binary has built in.
package toolgate

import _ "embed"

// OpenAPI describes the endpoints that the gateway serves itself.
//
//go:embed openapi.yaml
var OpenAPI []byte
