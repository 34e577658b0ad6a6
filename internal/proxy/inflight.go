package proxy

import (
	"net/http"
	"sync/atomic"
)

// maxInflight is the limit of all keys together, as the metrics name it.
const maxInflight = "max_inflight"

// inflight sheds load: with max requests under way, further ones are refused at once. Nothing queues.
func (s *Server) inflight(next http.Handler) http.Handler {
	var running atomic.Int64
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		defer running.Add(-1)
		if running.Add(1) > int64(info(r).site.MaxInflight) {
			s.metrics.rejections.WithLabelValues(info(r).keyName(), maxInflight).Inc()
			return errBusy
		}
		next.ServeHTTP(w, r)
		return nil
	})
}
