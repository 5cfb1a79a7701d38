// Package buffer stores one iteration of collected transitions, works out their returns
// and cuts them into minibatches.
package buffer
