package config

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5s": 5 * time.Second, "250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second, "1.5h": 90 * time.Minute,
	} {
		if d, err := ParseDuration(text); err != nil || time.Duration(d) != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "5", "-1s", "5 s", "1d", "s", "99999999h", "1e3s"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, d)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 5 * time.Second: "5s", time.Minute: "1m", time.Hour: "1h", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Hour + time.Second: "1h0m1s", 250 * time.Millisecond: "250ms",
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("String() = %s, want %s", got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1500": 1500, "1500B": 1500, "20MiB": 20 << 20, "1KiB": 1024, "5MB": 5e6, "1.5GiB": 3 << 29, "2TB": 2e12,
		"9223372036854775807": 1<<63 - 1, "0.0001KB": 0,
	} {
		if s, err := ParseSize(text); err != nil || s != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "-1", "20 MiB", "20mib", "20M", "MiB", "1e3", "9223372036854775808", "8388608TiB", "1.5.5KB"} {
		if s, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, s)
		}
	}
	for size, want := range map[Size]string{0: "0", 1500: "1500", 1024: "1KiB", 20 << 20: "20MiB", 5e6: "5MB", 1000: "1KB"} {
		if got := size.String(); got != want {
			t.Errorf("String() of %d = %s, want %s", int64(size), got, want)
		}
		if back, err := ParseSize(size.String()); err != nil || back != size {
			t.Errorf("ParseSize(%s) = %d, %v", size, back, err)
		}
	}
}
