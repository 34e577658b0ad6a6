package main

import (
	"github.com/toolgate/toolgate/internal/tool"
	"github.com/toolgate/toolgate/internal/tool/answer"
	"github.com/toolgate/toolgate/internal/tool/compute"
	"github.com/toolgate/toolgate/internal/tool/exectool"
	"github.com/toolgate/toolgate/internal/tool/fixed"
	"github.com/toolgate/toolgate/internal/tool/handoff"
	"github.com/toolgate/toolgate/internal/tool/httptool"
	"github.com/toolgate/toolgate/internal/tool/sqltool"
	"github.com/toolgate/toolgate/internal/tool/table"
)

// kinds are the kinds of tool that a file with those databases may use. A new kind is added here.
func kinds(dbs *sqltool.Databases) []tool.Kind {
	return []tool.Kind{
		httptool.Kind, sqltool.Kind(dbs), exectool.Kind, compute.Kind, table.Kind, fixed.Kind, handoff.Kind, answer.Kind,
	}
}
