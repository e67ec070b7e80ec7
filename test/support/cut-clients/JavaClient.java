// Posts each file and says whether the answer was taken for a whole one, and how many rows it has.
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;

public class JavaClient {
  public static void main(String[] args) throws Exception {
    HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    for (int i = 2; i < args.length; i++) {
      HttpRequest request = HttpRequest.newBuilder(URI.create(args[0]))
          .header("Authorization", "API-Key " + args[1])
          .header("Content-Encoding", "gzip")
          .header("X-Forwarded-Proto", "https")
          .POST(HttpRequest.BodyPublishers.ofFile(Path.of(args[i])))
          .build();
      try {
        HttpResponse<byte[]> answer = client.send(request, HttpResponse.BodyHandlers.ofByteArray());
        int lines = 0;
        for (byte b : answer.body()) if (b == '\n') lines++;
        System.out.printf("{\"status\":%d,\"rows\":%d}%n", answer.statusCode(), lines - 1);
      } catch (IOException e) {
        System.out.println("{\"status\":null,\"rows\":0}");
      }
    }
    System.exit(0);
  }
}
