package noderun

// Reap is the script of the process that kills what is left.
const Reap = reap
