/**
 * Paths within a record of any stream, as problems are counted by them.
 *
 * Invariant: below a field of the record only names of ours remain; any other, which may be a key of somebody's JSON
 * where a text should be, is `*`, and what is below it is left out.
 */

const NAMES = new Set([
  ...['id', 'uid', 'index', 'name', 'label', 'text', 'text_value', 'value', 'type', 'status', '*'],
  ...['first_name', 'last_name', 'email', 'phone_number', 'relationship', 'external_id'],
  ...['address', 'address2', 'city', 'state', 'zipcode', 'color'],
  ...['pages', 'sections', 'rows', 'questions', 'question_type', 'question_subtype', 'help_text'],
  ...['order', 'sort_order', 'choices', 'question_choices', 'forms', 'form', 'form_id'],
  ...['field_id', 'field_type', 'required', 'page', 'scheduled_at'],
])

/** `path` begins with a field of the record, which is told by its name; those of responses are told apart before. */
export function withoutForeignNames(path: string): string {
  const [field, ...below] = path.split('.')
  const foreign = below.findIndex((name) => !NAMES.has(name.replace(/(?:\[\d*\])+$/, '')))
  const told = foreign < 0 ? below : [...below.slice(0, foreign), '*']
  return [field, ...told].join('.')
}
