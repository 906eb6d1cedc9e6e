"""Values as users see them: text, tables, pictures and charts."""
