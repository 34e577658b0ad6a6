// Package table is the kind of tool that looks something up in a table of the configuration or of a CSV file.
package table

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/placeholder"
	"github.com/toolgate/toolgate/internal/tool"
)

// Kind is the `table` kind of tool.
var Kind = tool.Kind{Name: "table", Doc: "A look-up in a table of the file, or of a CSV file.", New: func() tool.Config { return &Config{} }}

// Config is the `table` part of a tool. Either Rows or File is there.
type Config struct {
	Rows        *config.Node `yaml:"rows" doc:"The table: keys and their values."`
	File        string       `yaml:"file" doc:"A CSV file with a header, in place of rows; read when the configuration is."`
	KeyColumn   string       `yaml:"key_column" doc:"With file: the column of the keys."`
	ValueColumn string       `yaml:"value_column" doc:"With file: the column of the values."`
	Key         string       `yaml:"key" doc:"What is looked up, with placeholders, such as {term}."`
	Normalize   []string     `yaml:"normalize" doc:"What is evened out before keys are compared: lower, trim, accents."`
	Default     *config.Node `yaml:"default" doc:"The value of a key that is not there, with placeholders; without it that is a failure."`

	values   map[string]string // by normalized key
	key      *placeholder.Template
	fallback *placeholder.Template // nil without a default
}

// maxFile bounds a CSV file.
const maxFile = 16 << 20

// DefaultEffect is Read.
func (*Config) DefaultEffect() tool.Effect { return tool.Read }

// Hosts is empty: the tool talks to nobody.
func (*Config) Hosts() []string { return nil }

// CallerFields are the fields of the caller that key and default name.
func (c *Config) CallerFields() []string {
	return append(c.key.CallerFields(), c.fallback.CallerFields()...)
}

// Check reads the table and reports what can't work.
func (c *Config) Check(n *config.Node, s tool.Spec) {
	for i, how := range c.Normalize {
		if !slices.Contains([]string{"lower", "trim", "accents"}, how) {
			n.Get("normalize").Items()[i].Fail("want lower, trim or accents, got %q", how)
		}
	}
	if c.Key == "" {
		n.Fail("key is missing: want what is looked up, such as {term}")
	}
	c.key = placeholder.Read(n.Get("key"), c.Key, s)
	if c.Default != nil && c.Default.Kind() != config.Null {
		c.fallback = placeholder.Read(c.Default, shown(c.Default), s)
	}
	c.values = map[string]string{}
	switch {
	case (c.Rows == nil) == (c.File == ""):
		n.Fail("want either rows or a file")
	case c.File != "":
		c.readFile(n)
	case c.Rows.Kind() != config.Mapping:
		c.Rows.Fail("want a mapping of keys to values")
	default:
		for _, key := range c.Rows.Keys() {
			if !c.add(key, shown(c.Rows.Get(key))) {
				c.Rows.FailKey(key, "another key is the same once they are evened out")
			}
		}
	}
}

// shown is a value as the model reads it.
func shown(n *config.Node) string {
	if n.Kind() == config.Mapping || n.Kind() == config.List {
		return string(n.JSON())
	}
	return n.Text()
}

// add takes a row in, and says whether its key is new.
func (c *Config) add(key, value string) bool {
	key = normalized(key, c.Normalize)
	_, old := c.values[key]
	c.values[key] = value
	return !old
}

func (c *Config) readFile(n *config.Node) {
	path := c.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(n.Dir(), path)
	}
	data, err := readFile(path)
	n.Uses(path, data)
	if err == nil {
		err = c.readCSV(data)
	}
	if err != nil {
		n.FailKey("file", "%s", err)
	}
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxFile)
	}
	return data, nil
}

func (c *Config) readCSV(data []byte) error {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("has no header: %w", err)
	}
	key, value := slices.Index(head, c.KeyColumn), slices.Index(head, c.ValueColumn)
	if key < 0 || value < 0 {
		return fmt.Errorf("want key_column and value_column to be two of its columns: %s", strings.Join(head, ", "))
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !c.add(row[key], row[value]) {
			line, _ := r.FieldPos(key)
			return fmt.Errorf("line %d: another line has the same key, once they are evened out", line)
		}
	}
}

// normalized is s evened out in the ways that the file names.
func normalized(s string, how []string) string {
	for _, h := range how {
		switch h {
		case "lower":
			s = strings.ToLower(s)
		case "trim":
			s = strings.TrimSpace(s)
		case "accents":
			plain, _, err := transform.String(transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC), s)
			if err == nil {
				s = plain
			}
		}
	}
	return s
}

// Build makes the tool.
func (c *Config) Build(tool.Spec, tool.Env) (tool.Tool, error) { return (*client)(c), nil }

type client Config

// Call looks the key up.
func (c *client) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	same := func(s string) string { return s }
	key, _ := c.key.Expand(call, same)
	if value, ok := c.values[normalized(key, c.Normalize)]; ok {
		return tool.Result{Text: value}, nil
	}
	if c.fallback == nil {
		return tool.Result{}, &tool.Error{Class: tool.Business, Message: "there is no entry for that key"}
	}
	value, _ := c.fallback.Expand(call, same)
	return tool.Result{Text: value}, nil
}
