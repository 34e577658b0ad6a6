package proxy

import (
	"net/http"
	"time"
)

// writeTimeout bounds how long a client may take to read what is written at once.
const writeTimeout = 60 * time.Second

// patience is how long a client may take to read what is written.
type patience struct {
	rc  *http.ResponseController
	set time.Time // when the deadline was
}

func newPatience(w http.ResponseWriter) *patience {
	return &patience{rc: http.NewResponseController(w)}
}

// begin is called before a write.
func (p *patience) begin() {
	if now := time.Now(); now.Sub(p.set) > writeTimeout/10 { // pieces come fast, and deadlines are not for nothing
		p.set = now
		_ = p.rc.SetWriteDeadline(now.Add(writeTimeout)) // without support, as in tests, there is none
	}
}
