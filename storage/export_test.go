package storage

// OnBucket returns logs in another bucket that share the codecs of l, because codecs are more
// expensive than a schedule.
func (l *Logs) OnBucket(b Bucket) *Logs {
	other := *l
	other.bucket = b
	return &other
}

// WithSmallSegments returns logs that merge width segments of a few batches, and read all but the
// smallest segments in parts.
func (l *Logs) WithSmallSegments(width int) *Logs {
	other := *l
	other.sizes = sizes{whole: 318, tail: 128, frames: 1, merged: 16 << 10, width: width}
	return &other
}
