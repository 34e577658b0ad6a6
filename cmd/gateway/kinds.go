package main

import (
	"errors"

	"github.com/toolgate/toolgate/internal/config"
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/answer"
	"github.com/toolgate/toolgate/internal/tool/compute"
	"github.com/toolgate/toolgate/internal/tool/fixed"
	"github.com/toolgate/toolgate/internal/tool/handoff"
	"github.com/toolgate/toolgate/internal/tool/httptool"
	"github.com/toolgate/toolgate/internal/tool/sqltool"
	"github.com/toolgate/toolgate/internal/tool/table"
)

// kinds are the kinds of tool that a file with those databases may use.
func kinds(dbs *sqltool.Databases) []tool.Kind {
	list := []tool.Kind{httptool.Kind, sqltool.Kind(dbs), compute.Kind, table.Kind, fixed.Kind, handoff.Kind, answer.Kind}
	for _, name := range []string{"exec"} {
		list = append(list, tool.Kind{Name: name, New: func() tool.Config { return &notYet{name: name} }})
	}
	return list
}

// notYet is a kind that the file may name and that is refused, so that none is silently ignored.
type notYet struct{ name string }

// DecodeNode takes whatever stands there.
func (*notYet) DecodeNode(*config.Node) {}

// ConfigSchema lets anything stand there.
func (*notYet) ConfigSchema() any { return true }

func (*notYet) DefaultEffect() tool.Effect { return tool.Read }

func (k *notYet) Check(n *config.Node, _ tool.Spec) {
	n.Fail("%s tools are not supported yet", k.name)
}

func (*notYet) Hosts() []string { return nil }

func (k *notYet) Build(tool.Spec, tool.Env) (tool.Tool, error) {
	return nil, errors.New(k.name + " tools are not supported yet")
}
