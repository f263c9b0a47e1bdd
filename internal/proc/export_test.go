package proc

// Reap is the script of the process that cleans up.
const Reap = reap
