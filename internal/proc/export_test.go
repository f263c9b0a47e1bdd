package proc

// Reap is the script of the process that kills what is left.
const Reap = reap
