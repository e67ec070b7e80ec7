// Posts files over HTTP/2 and says what came: arguments are an authority (PEM), an address, a key and the files.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

func ask(client *http.Client, url, key, name string) (int, int, string, error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, 0, "", err
	}
	defer file.Close()
	// Not told to be a file: no length is sent, the body is streamed.
	request, err := http.NewRequest("POST", url, struct{ io.Reader }{file})
	if err != nil {
		return 0, 0, "", err
	}
	request.Header.Set("Authorization", "API-Key "+key)
	answer, err := client.Do(request)
	if err != nil {
		return 0, 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, bytes.Count(body, []byte("\n")), answer.Proto, err
}

func main() {
	pem, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}
	for _, name := range os.Args[4:] {
		status, lines, protocol, err := ask(client, os.Args[2], os.Args[3], name)
		fmt.Printf("{\"status\": %d, \"lines\": %d, \"protocol\": %q, \"failed\": %t}\n", status, lines, protocol, err != nil)
	}
}
