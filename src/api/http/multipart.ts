/**
 * A form of one file, as `multipart/form-data`.
 *
 * Invariant: the body is bytes, not a stream, so that it can be sent again after 429; a file's name cannot leave its
 * quotes (the platform's own FormData writes `%22` and `%0D%0A` as the HTML standard wants it).
 */
import type { Sent } from './writes.ts'

export async function multipartOf(
  field: string,
  file: { readonly name: string; readonly bytes: Uint8Array },
  type: string,
): Promise<Required<Sent>> {
  const form = new FormData()
  form.append(field, new Blob([file.bytes], { type }), file.name)
  const encoded = new Response(form)
  const contentType = encoded.headers.get('content-type')!
  return { body: new Uint8Array(await encoded.arrayBuffer()), contentType }
}
