// Posts each file and says whether the answer was taken for a whole one, and how many rows it has.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	for _, file := range os.Args[3:] {
		status, rows := ask(os.Args[1], os.Args[2], file)
		fmt.Printf("{\"status\":%s,\"rows\":%d}\n", status, rows)
	}
}

func ask(url, token, file string) (string, int) {
	body, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	request, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "API-Key "+token)
	request.Header.Set("Content-Encoding", "gzip")
	request.Header.Set("X-Forwarded-Proto", "https")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "null", 0
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return "null", 0
	}
	return fmt.Sprint(answer.StatusCode), bytes.Count(content, []byte("\n")) - 1
}
