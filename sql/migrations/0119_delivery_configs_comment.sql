-- In the terms of the glossary.
comment on table intake_ops.delivery_configs is 'Webhook configurations that send to this warehouse: events that they delivered were found in the inbox.';
