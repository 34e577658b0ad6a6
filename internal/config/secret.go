package config

import (
	"fmt"
	"io"
	"log/slog"
)

const mask = "***"

// Secret is a text that must not be shown. It prints as *** with every verb of fmt, in JSON, in YAML and in slog.
//
// Two holes can't be closed: fmt calls no methods on unexported fields, so %v of a struct that keeps a Secret in one
// prints the text, and encoding/json none on the keys of maps. Keep Secrets in exported fields and out of keys.
type Secret string

// Reveal is the text itself.
func (s Secret) Reveal() string { return string(s) }

// String is the mask, also of an empty secret.
func (Secret) String() string { return mask }

// Format prints the mask for every verb, %#v and %x among them.
func (Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, mask) }

// MarshalText is the mask, for JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalYAML is the mask.
func (Secret) MarshalYAML() (any, error) { return mask, nil }

// LogValue is the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(mask) }
