// Types of those parts of the OpenAPI document that this program reads.

export interface Operation {
  operationId?: string;
  summary?: string;
  tags?: string[];
  security?: object[];
  parameters?: {
    name: string;
    in: string;
    required?: boolean;
    description?: string;
    schema: { type?: string; enum?: string[] };
  }[];
  requestBody?: { content: Record<string, unknown> };
  responses: Record<string, { description: string; content?: Record<string, unknown> }>;
}

export interface OpenApiDocument {
  info: { title: string; version: string; description: string };
  /** Operations by path and method. */
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
}
