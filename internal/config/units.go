package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time, in the file as "5s", "250ms" or "1m30s". 0 needs no unit; negative ones are refused.
type Duration time.Duration

// String is the shortest spelling that the file takes: "5s", "1m", "1m30s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDuration reads what a Duration may be in the file.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("want a duration such as 5s or 250ms")
	}
	if d < 0 {
		return 0, fmt.Errorf("want a duration of 0 or more")
	}
	return Duration(d), nil
}

// Size is a number of bytes, in the file as "20MiB" or "1KiB" (powers of 1024), "5MB" (powers of 1000) or bare bytes.
type Size int64

var (
	sizeForm  = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(B|[KMGT]i?B)?$`)
	sizeUnits = []struct {
		name  string
		bytes int64
	}{
		{"TiB", 1 << 40},
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"KB", 1e3},
		{"B", 1},
	}
)

// String is the size in the largest unit that has no remainder: "20MiB", "5MB", "1500".
func (s Size) String() string {
	for _, u := range sizeUnits[:len(sizeUnits)-1] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSize reads what a Size may be in the file. A fraction is rounded to whole bytes.
func ParseSize(s string) (Size, error) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("want a size such as 20MiB, 5MB or a number of bytes")
	}
	unit := int64(1)
	for _, u := range sizeUnits {
		if u.name == m[2] {
			unit = u.bytes
		}
	}
	if whole, err := strconv.ParseInt(m[1], 10, 64); err == nil && whole <= math.MaxInt64/unit {
		return Size(whole * unit), nil
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil || f*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("want a size below 8 EiB")
	}
	return Size(math.Round(f * float64(unit))), nil
}
