package proxy

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// recoverPanics turns a panic into a reply of 500. Its stack goes to the log alone. http.ErrAbortHandler, which cuts a
// reply off on purpose, goes on to net/http.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && err == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so too
				panic(v)
			}
			i := info(r)
			s.log.Error("handler panicked", slog.String("request_id", i.requestID), slog.String("run_id", i.runID),
				slog.Any("err", fmt.Errorf("%v", v)), slog.String("stack", string(debug.Stack())))
			errInternal.write(w, i.site.Mask)
		}()
		next.ServeHTTP(w, r)
	})
}
