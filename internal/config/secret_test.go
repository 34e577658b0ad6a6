package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

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
