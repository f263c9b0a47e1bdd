package actors

// HoldChecks keeps checks of initial data from beginning until release is called.
func HoldChecks(r *Runtime) (release func()) {
	for range cap(r.checks) {
		r.checks <- struct{}{}
	}
	return func() {
		for range cap(r.checks) {
			<-r.checks
		}
	}
}
