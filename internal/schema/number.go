package schema

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

const (
	longest     = 400  // digits that a number may get by being written out
	maxDigits   = 1000 // and those that a number may have to be calculated with
	maxExponent = 9999
)

var (
	decimalForm = regexp.MustCompile(`^(-?)0*([0-9]+)(\.[0-9]+)?$`)
	numberForm  = regexp.MustCompile(`^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)
)

// decimal reads a number in its plain decimal form, the only one that a string is taken for. kind is 0 for others.
func decimal(s string) (number json.Number, kind kinds) {
	if len(s) > longest {
		return "", 0
	}
	m := decimalForm.FindStringSubmatch(s)
	if m == nil {
		return "", 0
	}
	number = json.Number(m[1] + m[2] + m[3])
	return number, kindOf(number)
}

// parts is a number as digits × 10^zeros. ok is false for what is no JSON number or has an exponent beyond all use.
func parts(number string) (sign, digits string, zeros int, ok bool) {
	m := numberForm.FindStringSubmatch(number)
	if m == nil {
		return "", "", 0, false
	}
	fraction := strings.TrimRight(m[3], "0")
	if m[4] != "" {
		var err error
		if zeros, err = strconv.Atoi(m[4]); err != nil || zeros > maxExponent || zeros < -maxExponent {
			return "", "", 0, false
		}
	}
	zeros -= len(fraction)
	digits = strings.TrimLeft(m[2]+fraction, "0")
	short := strings.TrimRight(digits, "0")
	zeros += len(digits) - len(short)
	if short == "" {
		return "", "0", 0, true
	}
	return m[1], short, zeros, true
}

// isWholeNumber says whether a JSON number is an integer, as 5.0 and 5e2 are.
func isWholeNumber(number string) bool {
	if strings.Trim(strings.TrimPrefix(number, "-"), "0123456789") == "" {
		return true
	}
	_, _, zeros, ok := parts(number)
	return ok && zeros >= 0
}

// wholeNumber is the digits of a JSON number that is an integer. ok is false for fractions and for what would be too
// long to write out.
func wholeNumber(number string) (whole string, ok bool) {
	sign, digits, zeros, ok := parts(number)
	if !ok || zeros < 0 || zeros > longest {
		return "", false
	}
	return sign + digits + strings.Repeat("0", zeros), true
}

// computable says whether arithmetic on the number ends in good time. The library panics on exponents over a million
// and takes minutes for a few hundred thousand digits.
func computable(number json.Number) bool {
	if len(number) <= 18 && !strings.ContainsAny(string(number), "eE") {
		return true
	}
	_, _, _, ok := parts(string(number))
	return ok && len(number) <= maxDigits
}
