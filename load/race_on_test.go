//go:build race

package load

// raceDetector makes everything in this process about ten times slower.
const raceDetector = true
