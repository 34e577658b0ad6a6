package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// Some are only known by the name that they stand under.
func TestCredentialsInPlainWordsAreSecrets(t *testing.T) {
	f := Parse("gateway.yaml", ".", []byte(`
tools:
  a:
    http:
      url: https://a.test/x?api_key=in-the-url-1&page=number-1&sort_key=created
      headers: {Authorization: Bearer in-a-header-2, Cookie: s=in-a-cookie-3; lang=en-gb-3, Accept: text-4/plain, X-Auth-Mode: required, X-Token: "{caller.token5}"}
      query: {access_token: in-the-query-6, page: number-6}
    exec: {env: {TOOL_TOKEN: in-the-env-7, MODE: production-7}}
    parameters: {headers: {token: a-description-8}}
  headers: {token: no-header-9}
`), nil)
	want := []string{
		"Bearer in-a-header-2", "in-a-cookie-3", "in-a-header-2", "in-the-env-7", "in-the-query-6", "in-the-url-1",
		"lang=en-gb-3", "en-gb-3", "s=in-a-cookie-3; lang=en-gb-3",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, f.Secrets()); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}

func TestASecretNeverPrints(t *testing.T) {
	const text = "s3cret-value"
	v := struct {
		Key  Secret
		List []Secret
		Map  map[string]Secret
		Ptr  *Secret
	}{Key: text, List: []Secret{text}, Map: map[string]Secret{"k": text}}
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3v", "%T"} {
		out = append(out, fmt.Sprintf(verb, v), fmt.Sprintf(verb, v.Key), fmt.Sprintf(verb, &v), fmt.Sprintf(verb, v.List))
	}
	out = append(out, fmt.Sprint(v.Key), fmt.Sprintln(v.Key), v.Key.String(), fmt.Errorf("no: %w %v", fmt.Errorf("%s", v.Key), v.Key).Error())
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(map[string]any{"key": v.Key, "list": v.List})
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(h).Info("m", "key", v.Key, "struct", v, "list", v.List)
	}
	out = append(out, string(j), string(y), logged.String())
	for _, s := range out {
		if strings.Contains(s, "3cret") || strings.Contains(s, fmt.Sprintf("%x", "3cret")) || strings.Contains(s, fmt.Sprintf("%X", "3cret")) {
			t.Errorf("shows the secret: %s", s)
		}
	}
	for _, s := range []string{fmt.Sprint(v.Key), fmt.Sprintf("%#v", v.Key), fmt.Sprintf("%q", v.Key), fmt.Sprint(Secret(""))} {
		if s != "***" {
			t.Errorf("prints %s, want ***", s)
		}
	}
	if v.Key.Reveal() != text {
		t.Errorf("Reveal() = %q", v.Key.Reveal())
	}
}
