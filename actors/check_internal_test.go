package actors

// HoldChecks blocks checks of initial data until release is called.
func HoldChecks(r *Runtime) (release func()) {
	for range cap(r.accounts.checks) {
		r.accounts.checks <- struct{}{}
	}
	return func() {
		for range cap(r.accounts.checks) {
			<-r.accounts.checks
		}
	}
}
