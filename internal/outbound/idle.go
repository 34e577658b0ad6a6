package outbound

import "time"

// take is the kept connection that was used last, nil without one.
func (d *direct) take(address string) *directConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := d.idle[address]
	if len(kept) == 0 {
		return nil
	}
	c := kept[len(kept)-1]
	kept[len(kept)-1] = nil
	d.idle[address] = kept[:len(kept)-1]
	d.all--
	return c
}

// put keeps a connection.
func (d *direct) put(c *directConn) {
	c.since = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of.DisableKeepAlives || d.all >= d.of.MaxIdleConns || len(d.idle[c.address]) >= d.of.MaxIdleConnsPerHost {
		_ = c.Close()
		return
	}
	d.idle[c.address] = append(d.idle[c.address], c)
	if d.all++; d.sweep == nil {
		d.sweep = time.AfterFunc(d.of.IdleConnTimeout, d.closeOld)
	}
}

// closeOld closes what has been idle for too long, and looks again when the next one may be.
func (d *direct) closeOld() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep = nil
	oldest := time.Now()
	for address, kept := range d.idle {
		old := 0
		for old < len(kept) && time.Since(kept[old].since) >= d.of.IdleConnTimeout {
			_ = kept[old].Close()
			old++
		}
		d.all -= old
		if old == len(kept) {
			delete(d.idle, address)
			continue
		}
		d.idle[address] = append([]*directConn(nil), kept[old:]...)
		if since := kept[old].since; since.Before(oldest) {
			oldest = since
		}
	}
	if d.all > 0 {
		d.sweep = time.AfterFunc(max(d.of.IdleConnTimeout-time.Since(oldest), time.Second), d.closeOld)
	}
}

// CloseIdleConnections closes what is kept.
func (d *direct) CloseIdleConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for address, kept := range d.idle {
		for _, c := range kept {
			_ = c.Close()
		}
		delete(d.idle, address)
	}
	d.all = 0
	if d.sweep != nil {
		d.sweep.Stop()
		d.sweep = nil
	}
}
