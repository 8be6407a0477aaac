package deployer

import "maps"

// Stopped names the pipelines whose decisions stopped at a broken invariant, and says why.
func (d *Deployer) Stopped() map[string]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.stopped)
}
