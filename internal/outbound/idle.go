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
		d.look()
	}
}

// closeOld closes what has been idle for too long, and what its server has closed, which nobody waits to hear of. It looks
// again as long as something is kept.
func (d *direct) closeOld() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep, d.all = nil, 0
	for address, kept := range d.idle {
		open := make([]*directConn, 0, len(kept))
		for _, c := range kept {
			if time.Since(c.since) < d.of.IdleConnTimeout && c.quiet() {
				open = append(open, c)
				continue
			}
			_ = c.Close()
		}
		if len(open) == 0 {
			delete(d.idle, address)
			continue
		}
		d.idle[address] = open
		d.all += len(open)
	}
	if d.all > 0 {
		d.look()
	}
}

// look has closeOld called in a while.
func (d *direct) look() { d.sweep = time.AfterFunc(min(d.of.IdleConnTimeout, idleLook), d.closeOld) }

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
