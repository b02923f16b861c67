"""What people see: charts, views and forms. Nothing imports it."""
