package upstream

import (
	"crypto/sha256"
	"regexp"
	"strconv"
)

// idAlphabet and idLength are the strictest provider's rule of ids, Mistral's: nine letters and digits.
const (
	idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	idLength   = 9
)

// fitIDs gives each of the ids that the pattern does not take another one, unique among all of them. It depends on the
// ids alone.
func fitIDs(pattern *regexp.Regexp, ids []string) map[string]string {
	if pattern == nil {
		return nil
	}
	taken := map[string]bool{}
	var unfit []string
	for _, id := range ids {
		if !taken[id] && !pattern.MatchString(id) {
			unfit = append(unfit, id)
		}
		taken[id] = true
	}
	made := map[string]string{}
	for _, id := range unfit {
		n := 0
		for taken[madeID(id, n)] {
			n++
		}
		made[id] = madeID(id, n)
		taken[made[id]] = true
	}
	return made
}

// madeID is what goes out in place of an id, n counting those that are taken.
func madeID(id string, n int) string {
	sum := sha256.Sum256([]byte(id + "\x00" + strconv.Itoa(n)))
	b := make([]byte, idLength)
	for i := range b {
		b[i] = idAlphabet[int(sum[i])%len(idAlphabet)]
	}
	return string(b)
}
