package upstream

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/config"
)

var update = flag.Bool("update", false, "rewrite the messages in testdata/bad")

// Each file in testdata/bad has faults of one sort, after which it is named; beside it is what is said of them.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f := config.Parse(filepath.Base(file), filepath.Dir(file), data, func(string) (string, bool) { return "", false })
			var c struct {
				Upstreams config.Map[Config] `yaml:"upstreams"`
			}
			f.Decode(&c)
			got := f.Problems().Error() + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	f := parse("{profile: none, base_url: 'https://example.com'}")
	f.Decode(&Config{})
	list := strings.TrimPrefix(f.Problems().Error(), "u.yaml:1:11: profile: want one of ")
	list, _, _ = strings.Cut(list, ", got")
	named := strings.Split(list, ", ")
	for name := range profiles {
		if !slices.Contains(named, name) {
			t.Errorf("the profile %s can't be asked for", name)
		}
	}
	if len(named) != len(profiles) {
		t.Errorf("there are %d profiles of the names %q", len(profiles), named)
	}
	for name, p := range profiles {
		f := parse("{profile: " + name + ", base_url: 'https://example.com'}")
		var c Config
		f.Decode(&c)
		if problems := f.Problems(); problems != nil || c.BaseURL != "https://example.com" || c.Kind != p.kind {
			t.Errorf("%s: problems %v, base_url %s, kind %s", name, problems, c.BaseURL, c.Kind)
		}
		if diff := cmp.Diff(p.switches(), c.Switches); diff != "" {
			t.Errorf("%s (-profile +configuration):\n%s", name, diff)
		}
	}
}

func TestTheFileGoesBeforeTheProfile(t *testing.T) {
	c := decode(`
profile: mistral
kind: azure
stream_usage: true
max_tokens_field: max_completion_tokens
parallel_tool_calls: false
drop: []
drop_message_fields: [x]
tool_names: "[a-z0-9]+"
call_ids: ""
schema_drop: [format]
system: separate
developer_role: true
schema_with_tools: false
empty_content: true
`)
	want := Switches{
		StreamUsage: true, MaxTokensField: "max_completion_tokens", Drop: []string{}, DropMessageFields: []string{"x"}, ToolNames: "[a-z0-9]+",
		SchemaDrop: []string{"format"}, System: systemSeparate, DeveloperRole: true, EmptyContent: true,
	}
	if diff := cmp.Diff(want, c.Switches); diff != "" || c.Kind != kindAzure || c.BaseURL != profiles["mistral"].base {
		t.Errorf("kind %s, base_url %s, switches (-want +got):\n%s", c.Kind, c.BaseURL, diff)
	}
}

func TestWithoutAProfileNothingIsChanged(t *testing.T) {
	c := decode("{base_url: 'https://example.com/v1'}")
	if d, err := newDialect(&c.Switches); d != nil || err != nil {
		t.Errorf("the dialect is %+v, %v", d, err)
	}
}
