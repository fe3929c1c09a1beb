// Package sdktest lets the providers' own libraries read what Nexus and its scripted providers
// write. It is a module of its own, so that nobody else builds those libraries.
package sdktest
