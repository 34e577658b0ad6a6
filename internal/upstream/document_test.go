package upstream

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const document = "../../docs/providers.md"

// profileNames are the names in the order of the tag.
func profileNames(t *testing.T) []string {
	t.Helper()
	field, ok := reflect.TypeFor[Config]().FieldByName("Profile")
	if !ok {
		t.Fatal("no field Profile")
	}
	return strings.Split(field.Tag.Get("enum"), ",")
}

// The tables of the document are those of the code; -update rewrites them.
func TestTheDocumentHasEveryProfileAndSwitch(t *testing.T) {
	names := profileNames(t)
	var addresses strings.Builder
	addresses.WriteString("| profile | `base_url` |\n|---|---|\n")
	for _, name := range names {
		base := "yours"
		if profiles[name].base != "" {
			base = "`" + profiles[name].base + "`"
		}
		fmt.Fprintf(&addresses, "| `%s` | %s |\n", name, base)
	}
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want := section(t, string(data), "addresses", addresses.String())
	want = section(t, want, "switches", switchTable(names))
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s (-code +document):\n%s", document, diff)
	}
	for _, name := range names {
		if !strings.Contains(string(data), "profile: "+name+",") {
			t.Errorf("%s has no example of the profile %s", document, name)
		}
	}
}

// section is a document with other text between the comments of that name.
func section(t *testing.T, text, name, now string) string {
	t.Helper()
	between := regexp.MustCompile(`(?s)(<!-- ` + name + ` -->\n\n).*?(<!-- end -->)`)
	if !between.MatchString(text) {
		t.Fatalf("%s has no part %s", document, name)
	}
	return between.ReplaceAllStringFunc(text, func(s string) string {
		m := between.FindStringSubmatch(s)
		return m[1] + now + "\n" + m[2]
	})
}

func switchTable(names []string) string {
	var b strings.Builder
	b.WriteString("| switch | without a profile | with one |\n|---|---|---|\n")
	var usual Switches
	usual.SetDefaults()
	of := reflect.TypeFor[Switches]()
	for i := range of.NumField() {
		field := of.Field(i)
		var values []string // in the order of the first profile that has one
		having := map[string][]string{}
		for _, name := range names {
			value := cell(reflect.ValueOf(profiles[name].switches()).Field(i))
			if value == cell(reflect.ValueOf(usual).Field(i)) {
				continue
			}
			if having[value] == nil {
				values = append(values, value)
			}
			having[value] = append(having[value], name)
		}
		var with []string
		for _, value := range values {
			with = append(with, strings.Join(having[value], ", ")+": "+value)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field.Tag.Get("yaml"), cell(reflect.ValueOf(usual).Field(i)), strings.Join(with, "; "))
	}
	return b.String()
}

func cell(v reflect.Value) string {
	switch {
	case v.IsZero() && v.Kind() != reflect.Bool:
		return "none"
	case v.Kind() == reflect.Slice:
		return fmt.Sprintf("`%s`", strings.Join(v.Interface().([]string), "`, `"))
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

func TestErrorsInShapesOfTheirOwn(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"m"}}`,
		`[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]`, // Gemini
		`{"object":"error","message":"m","type":"invalid_request_error"}`,    // Mistral, vLLM
		`{"error":"m"}`,  // Ollama
		`{"detail":"m"}`, // FastAPI
	} {
		s, _ := script(t, status(422, body))
		_, err := NewRoutes(NewRoute(client(t, s.URL, ""), "", 0)).Ask(t.Context(), ask(t, plain))
		if e, ok := err.(*Error); !ok || e.Message != "m" || e.Kind != Refused { //nolint:errorlint // Ask gives nothing else
			t.Errorf("%s is read as %v", body, err)
		}
	}
}
